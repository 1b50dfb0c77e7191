"""Measures the agent by tasks, attacks and questions on the real app (docs/evals.md)."""
