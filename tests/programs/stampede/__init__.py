"""Thousands of mails and a provider that is away: how often it is asked, and how it is met when it is back.

`python -m tests.programs.stampede --mails 10000` plays it with as many as wanted; the test in
`tests/round_trips/test_away.py` with a few.
"""
