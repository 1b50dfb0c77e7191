"""Mixed load and random faults for some minutes, then the promises: two web and three worker processes on a
PostgreSQL of their own, and providers that fail at random.

CI tries the checker (tests/test_soak.py). The table of a whole run is in docs/reliability.md.
"""
