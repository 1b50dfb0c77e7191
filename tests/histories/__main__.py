"""`python -m tests.histories record --release NAME`: write down what this code's workflows record."""

from __future__ import annotations

import argparse
import os
import sys

from tests.databases import fresh_databases
from tests.histories.recorder import record

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def main() -> int:
    """Record; exit with 1 if a story did not end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("record",))
    parser.add_argument("--release", required=True, help="the folder to write, such as 1.0.0")
    parser.add_argument("--only", default="", help="only stories whose name has this in it")
    options = parser.parse_args()
    with fresh_databases("sqlite") as fresh:
        written = record(options.release, fresh, options.only)
    print(f"{len(written)} runs of {options.release} are written down")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
