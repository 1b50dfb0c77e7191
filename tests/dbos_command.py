"""The real `dbos` command on a shop's database, as `docs/operate.md` says to use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness import Harness

ROOT = Path(__file__).parents[1]


def dbos(shop: Harness, *arguments: str) -> Any:
    """Run `dbos workflow …`; return what it prints, which is JSON or nothing."""
    url = shop.live.database.engine.url.render_as_string(hide_password=False)
    done = subprocess.run(
        ["dbos", "workflow", *arguments, "--sys-db-url", url],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None
