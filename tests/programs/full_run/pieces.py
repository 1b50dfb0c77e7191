"""The pieces of parts that have run, in a folder that git ignores: their outcomes, by commit."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.programs.full_run.history import has_changed, is_in_history
from tests.programs.full_run.parts import Part


@dataclass(frozen=True)
class Piece:
    """One command of a part that ran. `code`: its exit code. `results`: the file that it wrote or what it
    printed."""

    code: int
    seconds: int
    commit: str
    date: str
    results: Path


def file_name(command: tuple[str, ...]) -> str:
    """Return a name for what a command leaves in the folder, without a suffix."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(command))


def keep(piece: Piece, file: Path) -> None:
    """Record the outcome of a command beside its results."""
    values = asdict(piece) | {"results": piece.results.name}
    file.with_suffix(".done").write_text(json.dumps(values) + "\n", "utf-8")


def find_done(part: Part, command: tuple[str, ...], folder: Path) -> Piece | None:
    """Return the newest run of a command that held, at a commit since which nothing that it measures has
    changed; None if there is none."""
    found = [_read(file) for file in folder.glob(f"*/{file_name(command)}.done")]
    usable = [
        piece
        for piece in found
        if piece.code == 0
        and is_in_history(piece.commit)
        and not has_changed(piece.commit, part.paths)
    ]
    return max(usable, key=lambda piece: piece.date, default=None)


def _read(file: Path) -> Piece:
    values = json.loads(file.read_text("utf-8"))
    return Piece(**values | {"results": file.parent / values["results"]})
