"""Programs that measure, sweep and draw. Run each by `python -m tests.programs.NAME`."""
