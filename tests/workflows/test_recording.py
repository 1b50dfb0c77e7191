"""Every step is made in recording.py: what is made elsewhere, no crash or replay sweep would see."""

from __future__ import annotations

import ast
from pathlib import Path

import mailagent
from mailagent.workflows.steps import recording

PACKAGE = Path(mailagent.__file__).parent
MAKERS = {"step", "run_step", "run_step_async"}


def made_in(source: str) -> list[int]:
    """Return the lines on which DBOS is asked for a step."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and _makes_step(node)
    ]


def _makes_step(node: ast.Attribute) -> bool:
    # `recording.step` is another matter; `run_step` is nobody else's name.
    of_dbos = "dbos" in ast.unparse(node.value).casefold()
    return node.attr in MAKERS and (of_dbos or node.attr != "step")


def test_no_step_is_made_outside_recording() -> None:
    made = {
        str(path.relative_to(PACKAGE)): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != Path(recording.__file__) and (lines := made_in(path.read_text("utf-8")))
    }
    assert made == {}, "use step or async_step of mailagent/workflows/steps/recording.py"
