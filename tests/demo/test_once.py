"""The whole story, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys

from mailagent.demo.process import ROOT


def test_the_story_of_the_demo_holds() -> None:
    """Two crashes by SIGKILL, two refunds, each paid once; every fact checked by the command."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    told = subprocess.run(
        [sys.executable, "-m", "flask", "demo", "--once", "--port", "0"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "✗" not in told.stdout
    assert "facts hold" in told.stdout
