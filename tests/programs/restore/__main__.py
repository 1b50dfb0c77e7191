"""`python -m tests.programs.restore [sqlite] [postgresql]`: play it, say what came of it, exit with 1
if it broke.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.programs.restore.databases import KINDS
from tests.programs.restore.story import play


def main() -> int:
    failures = 0
    for kind in sys.argv[1:] or sorted(KINDS):
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
