"""Let many customers write while the model is away, and see how often it is asked.

`python -m tests.programs.stampede` prints the figures. It exits with 1 if the model was asked too often, or a
mail was not answered exactly once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.databases import fresh_databases
from tests.programs.proof import DATABASES
from tests.programs.stampede.story import AbsentOpenAI, is_calm, open_busy_shop, play

PROBES, CONCURRENCY = 10, 64


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.programs.stampede", description=__doc__)
    parser.add_argument("--mails", type=int, default=10_000)
    parser.add_argument("--database", choices=DATABASES, default="postgresql")
    options = parser.parse_args()
    openai = AbsentOpenAI()
    openai.start()
    with (
        tempfile.TemporaryDirectory() as folder,
        fresh_databases(options.database) as fresh,
        open_busy_shop(Path(folder), fresh(), openai, CONCURRENCY) as (harness, clock),
    ):
        figures = play(harness, clock, openai, options.mails, PROBES)
    openai.stop()
    for name, value in asdict(figures).items():
        print(f"{name.replace('_', ' '):14} {value:.0f}")
    return 0 if is_calm(figures, CONCURRENCY) else 1


if __name__ == "__main__":
    sys.exit(main())
