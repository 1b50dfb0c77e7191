"""A decision locks the order before its refund, as everybody does, and reads everything else after that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from tests.harness import Harness
from tests.web.questions import Question


@contextmanager
def statements(shop: Harness) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if not statement.startswith("BEGIN"):
            said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


def locks(said: list[str]) -> list[str]:
    return [each for each in said if "FOR UPDATE" in each]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_order_is_locked_before_its_refund_and_all_else_is_read_after(
    question: Question,
) -> None:
    opened = question.token()
    with statements(question.shop) as said:
        question.press(opened, "approve")
    order, refund = locks(said)
    assert "FOR UPDATE OF orders" in order
    assert "FOR UPDATE OF refunds" in refund
    assert said[0] == order
