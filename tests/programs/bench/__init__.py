"""What mail costs on PostgreSQL, and what waiting, many workers and a full database cost: docs/benchmarks.md.

pytest runs it only with a handful of everything, because figures depend on the machine.
"""
