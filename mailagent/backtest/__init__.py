"""Asks a configuration what it would have answered to mail that was answered. Writes and sends nothing."""
