"""Tests that run side by side never give two programs the same port."""

from __future__ import annotations

import subprocess
import sys

from mailagent.app import ROOT
from tests.ports import SIZE, choose_port

CHOOSE = "from tests.ports import choose_port; print(choose_port(), flush=True); input()"


def test_programs_side_by_side_get_different_ports() -> None:
    ranges = {choose_port() // SIZE}
    others = [
        subprocess.Popen(
            [sys.executable, "-c", CHOOSE],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    ranges |= {int(other.stdout.readline()) // SIZE for other in others if other.stdout}
    for other in others:
        other.communicate("\n")
    assert len(ranges) == 3


def test_a_process_gets_a_port_again_only_after_its_others() -> None:
    assert len({choose_port() for _ in range(50)}) == 50
