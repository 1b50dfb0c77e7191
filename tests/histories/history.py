"""One run's history as a file: what it was given, what its steps recorded, what came of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROWS = "rows-"  # how files begin that hold a shop's rows and not a run


@dataclass(frozen=True)
class Step:
    """One operation as DBOS recorded it; `output` and `error` are read from their JSON."""

    number: int
    name: str
    output: Any
    error: Any
    serialization: str | None
    started_at_ms: int | None


@dataclass(frozen=True)
class History:
    """A run as it stood when it was recorded. `release` is what its folder is called."""

    release: str
    story: str
    workflow: str
    run_id: str
    application_version: str
    status: str
    inputs: Any
    output: Any
    error: Any
    serialization: str | None
    created_at_ms: int
    steps: tuple[Step, ...]

    @property
    def is_cut(self) -> bool:
        """Whether the run was still under way."""
        return self.status not in ("SUCCESS", "ERROR")

    def __str__(self) -> str:
        return f"{self.workflow} of {self.story!r} at {self.release}"


def write(history: History, name: str) -> None:
    """Write a history into the folder of its release, as `name`."""
    folder = FOLDER / history.release
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(history), indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n")


def read_all(release: str | None = None) -> list[History]:
    """Return the histories of a release, or of all, in the order of their names."""
    paths = sorted(FOLDER.glob(f"{release or '*'}/*.json"))
    return [_read(path) for path in paths if not path.name.startswith(ROWS)]


def _read(path: Path) -> History:
    values = json.loads(path.read_text())
    steps = tuple(Step(**each) for each in values.pop("steps"))
    return History(**values, steps=steps)
