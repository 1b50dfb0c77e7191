"""Many mails and a model that is away: how often it is asked, and how it is met when it is back.

`tests/round_trips/test_away.py` plays it with a few mails.
"""
