"""Whether the benchmark runs and has its rows. What it measures is never tested: machines differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from mailagent.demo.app_process import ROOT


def test_the_benchmark_has_all_rows_and_every_mail_is_answered(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--mails", "3", "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = json.loads(written.read_text("utf-8"))
    names = [row["name"].strip() for row in figures["rows"]]
    assert names == [
        "question about an order",
        "small refund",
        "receive",
        "run",
        "model client",
        "mail client",
    ]
    assert all(name in ran.stdout for name in names)
    assert figures["answered"] == figures["received"] == 9  # two flows, and one with a worker alone
