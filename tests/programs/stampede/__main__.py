"""Play the story with as many mails as wanted; print its figures; exit with 1 if it was asked too often."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN
from tests.databases import fresh_databases
from tests.programs.stampede.provider import AbsentOpenAI
from tests.programs.stampede.story import Figures, open_busy_shop, play

PROBES, CONCURRENCY = 10, 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mails", type=int, default=10_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    options = parser.parse_args()
    openai = AbsentOpenAI()
    openai.start()
    with tempfile.TemporaryDirectory() as folder, fresh_databases(options.database) as fresh:
        shop = open_busy_shop(Path(folder), fresh(), openai, CONCURRENCY)
        with shop as (harness, clock):
            figures = play(harness, clock, openai, options.mails, PROBES)
    openai.stop()
    for name, value in asdict(figures).items():
        print(f"{name.replace('_', ' '):14} {value:.0f}")
    return 0 if is_calm(figures, CONCURRENCY) else 1


def is_calm(figures: Figures, concurrency: int) -> bool:
    """Whether the model was spared while it was away, and nobody was forgotten or written to twice."""
    most = FAILURES_TO_OPEN + concurrency + figures.probes
    return (
        figures.while_away <= most
        and figures.most_at_once <= concurrency
        and (figures.answered, figures.twice) == (figures.mails, 0)
    )


if __name__ == "__main__":
    sys.exit(main())
