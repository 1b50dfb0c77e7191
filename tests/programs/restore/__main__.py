"""Lose what came after a backup, follow docs/backup.md, and check that nothing is paid twice:
`python -m tests.programs.restore`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.programs.restore.databases import KINDS
from tests.programs.restore.story import play


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.programs.restore", description=__doc__)
    parser.add_argument("--database", choices=list(KINDS), action="append", help="default: both")
    failures = 0
    for kind in parser.parse_args().database or KINDS:
        with tempfile.TemporaryDirectory(prefix="mailagent-restore-") as name:
            folder = Path(name)
            folder.chmod(0o755)  # PostgreSQL runs under a name of its own and has to get in
            try:
                with KINDS[kind](folder) as database:
                    print(f"{kind}: {play(folder, database)}")
            except AssertionError as broken:
                failures += 1
                print(f"{kind}: BROKEN: {broken}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
