"""Run mailagent's commands as an operator does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from click.testing import Result

from tests.databases import ROOT
from tests.harness import Harness


def flask(shop: Harness, *arguments: str, given: bytes = b"") -> Result:
    """Run a command in the shop."""
    return shop.app.test_cli_runner().invoke(args=list(arguments), input=given)


def process(environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "flask", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "FLASK_SKIP_DOTENV": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
