"""A line of the log as one object: the ids of what is worked on, and nothing that a record brings along."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any

import pytest

from mailagent.telemetry import log_ids
from mailagent.telemetry.log_lines import JsonLine
from mailagent.workflows.steps import recording

CONVERSATION, REFUND = "conversation_01", "refund_01"


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """Forget what an earlier test's request was about, as the next request does."""
    log_ids.begin()


def line(message: str = "done", *args: object, **extra: Any) -> dict[str, str]:
    record = logging.LogRecord("mailagent.x", logging.WARNING, "x.py", 1, message, args, None)
    record.__dict__.update(extra)
    told: dict[str, str] = json.loads(JsonLine().format(record))
    return told


def test_a_line_has_its_time_in_utc_and_its_words() -> None:
    told = line("put off %s mails", 3)
    assert (told["level"], told["logger"], told["message"]) == (
        "WARNING",
        "mailagent.x",
        "put off 3 mails",
    )
    assert told["time"].endswith("Z")
    assert datetime.fromisoformat(told["time"]).tzinfo is not None


def test_a_line_stays_one_line_whatever_is_in_it() -> None:
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, 'a\nb\u2028"c"', (), None)
    formatted = JsonLine().format(record)
    assert len(formatted.splitlines()) == 1
    assert json.loads(formatted)["message"] == 'a\nb\u2028"c"'


def test_what_a_record_brings_along_is_left_out() -> None:
    assert "body" not in line(body="what a customer wrote")


def test_what_dbos_says_of_a_run_names_the_run() -> None:
    assert line(operationUUID="refund-01")["run_id"] == "refund-01"


def test_a_step_names_what_it_works_on_and_no_call_passes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_at_a_row(_batch: dict[str, Any], _reason: str) -> dict[str, str]:
        return line()

    monkeypatch.setattr(recording, "CRASH_POINTS", {})  # it is no step of ours
    look = recording.step(look_at_a_row)
    told = look({"conversation_id": CONVERSATION, "text": "My kettle"}, "because")
    assert told["conversation_id"] == CONVERSATION
    assert "My kettle" not in json.dumps(told)
    assert "conversation_id" not in line()


@pytest.mark.parametrize(
    ("subjects", "found"),
    [
        ((REFUND,), {"refund_id": REFUND}),
        (
            (CONVERSATION, {"refund_id": REFUND}),
            {"refund_id": REFUND, "conversation_id": CONVERSATION},
        ),
        (({"run_id": "refund-01-fork-1"},), {"run_id": "refund-01-fork-1"}),
        (("outbound_01", None, 7, ["refund_01"]), {}),
        (({"conversation_id": None, "text": "refund_01"},), {}),
    ],
    ids=["an id", "an id and data", "a view's arguments", "others", "none known"],
)
def test_ids_are_found_in_what_is_given_and_nothing_else_is(
    subjects: tuple[Any, ...], found: dict[str, str]
) -> None:
    assert log_ids.find_ids(*subjects) == found


def test_a_run_that_wakes_others_for_many_rows_is_about_none_of_them() -> None:
    with log_ids.about(run_id="sweep-1"):
        log_ids.note(REFUND)
        assert "refund_id" not in log_ids.known()
    log_ids.begin()
    log_ids.note(REFUND)
    assert log_ids.known()["refund_id"] == REFUND
    log_ids.begin()
    assert "refund_id" not in log_ids.known()
