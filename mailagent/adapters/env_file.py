"""The file `.env`: one NAME=value a line. Flask loads it through python-dotenv; `flask setup` writes it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

NAME = ".env"

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
# We put other values into single quotes, which python-dotenv, Docker and systemd read in the same way.
_PLAIN = re.compile(r"[\w@%+=:,./~?&-]*", re.ASCII)


def load() -> None:
    """Set the variables of `.env` that the environment does not have. `flask` does so itself; gunicorn and
    Alembic call this.

    FLASK_SKIP_DOTENV=1 turns it off, there as here. A file that this user may not read is told and left out.
    """
    from flask.cli import load_dotenv
    from flask.helpers import get_load_dotenv

    if not get_load_dotenv():
        return
    try:
        load_dotenv()
    except PermissionError as problem:
        told = (
            f"{problem.filename} is not read: this user may not. FLASK_SKIP_DOTENV=1 leaves it out"
        )
        click.echo(told, err=True)


def read(path: Path) -> dict[str, str]:
    """Return the variables of a file; none if there is no file."""
    if not path.is_file():
        return {}
    found = (_LINE.fullmatch(line) for line in path.read_text("utf-8").splitlines())
    return {match[1]: _without_quotes(match[2]) for match in found if match}


def write(path: Path, values: Mapping[str, str]) -> None:
    """Set variables of a file, which only its owner can read. All other lines stay as they are.

    The file is replaced in one step, so that a reader never sees half of it. Raises ValueError for a value that
    cannot be written on one line.
    """
    path = path.resolve()  # replace the file, not a symbolic link to it
    old = path.read_text("utf-8").splitlines() if path.is_file() else []
    left = dict(values)
    lines = []
    for line in old:
        match = _LINE.fullmatch(line)
        name = match[1] if match else ""
        lines.append(_line(name, left.pop(name)) if name in left else line)
    lines += [_line(name, value) for name, value in left.items()]
    _replace(path, "".join(f"{line}\n" for line in lines))


def _line(name: str, value: str) -> str:
    if not value.isprintable() or "'" in value:
        raise ValueError(
            f"{name}: a quote or a line break in the value cannot be written to {NAME}"
        )
    return f"{name}={value}" if _PLAIN.fullmatch(value) else f"{name}='{value}'"


def _without_quotes(value: str) -> str:
    quoted = re.match(r"'([^']*)'|\"([^\"]*)\"", value)
    return (quoted[1] or quoted[2] or "") if quoted else re.sub(r"(\A|\s+)#.*", "", value)


def _replace(path: Path, text: str) -> None:
    # mkstemp makes a file that only its owner can read.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
