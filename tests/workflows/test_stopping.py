"""A process that is to end begins no step more, and waits for those at work, but not for ever."""

from __future__ import annotations

import ast
import threading
import time
from pathlib import Path

import pytest

import mailagent
from mailagent.workflows.steps import recording
from mailagent.workflows.steps.recording import AtWork, Left


def never() -> bool:
    return False


def test_without_a_step_at_work_nobody_waits() -> None:
    steps = AtWork()
    steps.leave()
    assert steps.wait_until_done(0, never)


def test_who_leaves_begins_no_step_until_it_is_opened_again() -> None:
    steps = AtWork()
    steps.leave()
    with pytest.raises(Left), steps.one_step():
        pass
    steps.open()
    with steps.one_step():
        pass


def test_a_step_at_work_is_waited_for() -> None:
    steps, end = AtWork(), threading.Event()

    def work() -> None:
        with steps.one_step():
            begun.set()
            end.wait(20)

    begun = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(20)
    steps.leave()
    threading.Timer(0.2, end.set).start()
    assert steps.wait_until_done(20, never)
    thread.join()


@pytest.mark.parametrize(("seconds", "hurry"), [(0.1, False), (600, True)])
def test_a_step_that_hangs_is_left_when_time_is_up_or_somebody_is_in_a_hurry(
    seconds: float, hurry: bool
) -> None:
    steps = AtWork()
    with steps.one_step():
        steps.leave()
        began = time.monotonic()
        assert not steps.wait_until_done(seconds, lambda: hurry)
        assert time.monotonic() - began < 20


def test_a_step_that_fails_is_at_work_no_more() -> None:
    steps = AtWork()
    with pytest.raises(ValueError, match="wrong"), steps.one_step():
        raise ValueError("wrong")
    assert steps.wait_until_done(0, never)


# --- recording ------------------------------------------------------------------------------------


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
