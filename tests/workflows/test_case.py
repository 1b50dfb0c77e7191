"""What the model is told of a mail is read once, and not told any more of whoever was erased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.store import erasure
from mailagent.workflows.steps import kept_cases
from mailagent.workflows.steps.batch import Batch, take_batch
from mailagent.workflows.steps.case import case_of
from mailagent.workflows.steps.kept_cases import KeptCases
from tests.cast import ADA, OLGA
from tests.stage import Stage

WORDS = "Where is my red kettle?"


@pytest.fixture
def batch(shop: Stage, monkeypatch: pytest.MonkeyPatch) -> Batch:
    monkeypatch.setattr(kept_cases, "kept", KeptCases())
    shop.write(WORDS)
    (conversation,) = shop.rows("SELECT conversation_id FROM conversations")
    taken = take_batch(conversation.conversation_id)
    assert taken is not None
    return taken


@contextmanager
def statements(shop: Stage) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


def test_the_mails_of_a_run_are_read_for_its_first_ask_only(shop: Stage, batch: Batch) -> None:
    first = case_of(batch).item
    with statements(shop) as said:
        again = case_of(batch).item
    assert WORDS in first["content"]
    assert again == first
    assert said
    assert not [each for each in said if "_mails" in each]


def test_nobody_is_told_of_whoever_was_erased_meanwhile(shop: Stage, batch: Batch) -> None:
    case_of(batch)
    with shop.live.database.transaction() as connection:
        # As long as it waits nobody can be erased; a run that goes on for longer finds it settled.
        connection.execute(
            sa.text("UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'x'")
        )
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    found = case_of(batch)
    erased, address = found.item, found.address
    assert WORDS not in erased["content"]
    assert address != ADA


def test_mails_of_which_nobody_knows_when_they_were_taken_are_read_each_time(
    shop: Stage, batch: Batch
) -> None:
    del batch["taken_at"]
    case_of(batch)
    with statements(shop) as said:
        case_of(batch)
    assert [each for each in said if "inbound_mails" in each]


def test_only_so_many_cases_are_kept_and_none_for_long(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_cases, "KEPT_MOST", 2)
    case_of(batch)
    others: list[Batch] = [
        {**batch, "taken_at": f"2026-01-0{day}T00:00:00+00:00"} for day in range(1, 4)
    ]
    for each in others:
        case_of(each)
    assert len(kept_cases.kept._cases) == 2
    monkeypatch.setattr(kept_cases, "KEPT_SECONDS", -1.0)
    case_of(batch)
    assert not kept_cases.kept._cases
