"""Deliberate bugs, one at a time: each must be caught by a test that is named beside it."""
