"""Kills the app with SIGKILL at every point of every step and of every POST, and checks the promises.

`tests/round_trips/test_crashes.py` tries a sample. Playing a story once shows which points it comes to.
"""
