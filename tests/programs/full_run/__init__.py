"""Runs every program in full, keeps the results in docs/results.json, and writes the tables of documents."""
