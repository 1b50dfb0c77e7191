"""What one answered mail costs, on PostgreSQL: `python -m tests.bench`. See docs/benchmarks.md.

Never run by pytest, except as a smoke test with three mails: figures depend on the machine.
"""
