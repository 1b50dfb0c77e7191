"""What the manager's page asks of the database: each fact once, and nothing that the page does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from mailagent.domain.refund import RefundStatus
from tests.cast import MAX, MONA
from tests.stage import Stage
from tests.web import test_approvals
from tests.web.test_approvals import Question

question = test_approvals.question

TO_SHOW, TO_SHOW_DECIDED = 5, 5
TO_DECIDE = {"approve": 13, "reject": 13}
# The second is tried as the first before, but the run has the refund by then.
TO_DECIDE_FIRST, TO_DECIDE_SECOND = 13, 13
# There DBOS's client rings, which looks for forks in questions of their own, and an absence ends by itself.
MORE_ON_SQLITE = 4


@contextmanager
def statements(shop: Stage) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if not statement.startswith("BEGIN"):
            said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


def more(shop: Stage) -> int:
    return MORE_ON_SQLITE if shop.live.database.engine.dialect.name == "sqlite" else 0


def locks(said: list[str]) -> list[str]:
    return [each for each in said if "FOR UPDATE" in each]


@pytest.mark.parametrize("how", TO_DECIDE)
def test_each_fact_of_a_case_is_read_once(question: Question, how: str) -> None:
    shop = question.shop
    with statements(shop) as said:
        opened = question.token()
    assert (len(said), max(Counter(said).values())) == (TO_SHOW, 1)
    assert not locks(said)
    with statements(shop) as said:
        answer = question.press(opened, how)
    assert (answer.status_code, len(said)) == (200, TO_DECIDE[how] + more(shop))
    assert max(Counter(said).values()) == 1
    with statements(shop) as said:
        assert f"By <strong>{MONA}</strong>" in shop.client.get(question.link()).text
    assert len(said) == TO_SHOW_DECIDED
    assert not [each for each in said if "approval_asks" in each or "manager_absences" in each]


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


def test_two_pairs_of_eyes_ask_hardly_more(question: Question) -> None:
    shop = question.shop
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET four_eyes = :both"), {"both": True})
    for manager, most in ((MONA, TO_DECIDE_FIRST), (MAX, TO_DECIDE_SECOND)):
        opened = question.token(manager)
        with statements(shop) as said:
            assert question.press(opened, "approve", manager).status_code == 200
        assert len(said) == most + more(shop)
    assert question.refund().status is RefundStatus.APPROVED
