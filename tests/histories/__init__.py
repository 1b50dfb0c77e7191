"""What every workflow recorded at every release, and the test that today's code replays it."""
