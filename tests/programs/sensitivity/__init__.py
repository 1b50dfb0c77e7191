"""Worsens prompt, tools and policy on purpose, and sees whether the gate notices."""
