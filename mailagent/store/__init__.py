"""Rows: every table, and the only SQL there is. Functions take the caller's connection, so that a
row and the wake-up that announces it commit together."""
