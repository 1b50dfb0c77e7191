"""What git knows of the commits at which something was measured."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mailagent.app import ROOT


def is_in_history(commit: str, root: Path = ROOT) -> bool:
    """Return whether a commit is HEAD or before it."""
    return _git(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def has_changed(commit: str, paths: Sequence[str], root: Path = ROOT) -> bool:
    """Return whether a file below these paths is another now than at a commit, by more than comments.

    Raises ValueError if git does not know the commit.
    """
    found = _git(root, "diff", "--name-only", "-z", commit, "--", *paths)
    if found.returncode:
        raise ValueError(f"{commit}: {found.stderr.decode('utf-8', 'replace').strip()}")
    names = [name for name in found.stdout.decode().split("\0") if name]
    return any(_is_changed(commit, name, root) for name in names)


def _is_changed(commit: str, name: str, root: Path) -> bool:
    before = _git(root, "show", f"{commit}:{name}")
    file = root / name
    if before.returncode or not file.is_file():
        return True
    code_of = _CODE_OF.get(file.suffix, bytes)
    return code_of(before.stdout) != code_of(file.read_bytes())


def _python(source: bytes) -> str:
    """Return a module without its comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = list(_without_docstring(node.body))
    return ast.dump(tree)


def _template(source: bytes) -> str:
    """Return a template of Jinja's without its comments."""
    return re.sub(r"\{#.*?#\}", "", source.decode("utf-8"), flags=re.DOTALL)


_CODE_OF: dict[str, Callable[[bytes], str | bytes]] = {
    ".py": _python,
    **dict.fromkeys((".html", ".subject", ".txt"), _template),
}


def _without_docstring(body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
    for number, statement in enumerate(body):
        value = statement.value if isinstance(statement, ast.Expr) else None
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if number or not is_text:
            yield statement


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
