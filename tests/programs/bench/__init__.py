"""What mail costs on PostgreSQL, and what waiting, many workers and a full database cost:
`python -m tests.programs.bench`. See docs/benchmarks.md.

Never run by pytest, except with a handful of everything: figures depend on the machine.
"""
