"""What conftest.py promises to every test."""

from __future__ import annotations

import subprocess
import sys

from tests.databases import ROOT


def test_a_child_process_hears_ctrl_c() -> None:
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_child_process_hears_ctrl_c_if_pytest_was_started_in_the_background() -> None:
    this = f"{__file__}::{test_a_child_process_hears_ctrl_c.__name__}"
    command = 'trap "" INT; exec "$@"'
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this]
    ended = subprocess.run(
        ["sh", "-c", command, "sh", *pytest], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
