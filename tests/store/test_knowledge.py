"""How often passages were quoted, of the newest mails only; and the questions that no passage answers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import OutboundMail, Purpose
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.domain.operations.report import DAY, Figure
from mailagent.store.console import knowledge
from mailagent.store.mail import conversations, outbound
from mailagent.store.operations import daily_figures
from mailagent.store.privacy import erasure
from mailagent.web.console import agent
from mailagent.web.owners import report
from tests.cast import ADA, GRACE, MONA, OLGA, SUPPORT
from tests.handed_over import by_button, handed_over
from tests.harness import Harness


def test_the_newest_mails_are_counted_and_those_without_a_passage_take_no_room(
    shop: Harness,
) -> None:
    began = shop.live.now()
    quoted = (("old#1@a",), ("returns#1@a", "returns#2@a"), ("returns#1@b",), ())
    with shop.live.database.transaction() as connection:
        for number, sources in enumerate(quoted):
            mail = OutboundMail(
                outbound_id=f"outbound_{number}",
                purpose=Purpose.NOTICE,
                to_address=ADA,
                from_address=SUPPORT,
                subject="Returns",
                text="As our pages say.",
                html=None,
                message_id=f"{number}@shop.example",
                sources=sources,
            )
            outbound.record(connection, mail, f"{number}", began + timedelta(seconds=number))
        counted = knowledge.count_quoted(connection, began, most=2)
    assert counted == {"returns#1": 2, "returns#2": 1}
    assert len(shop.rows("SELECT 1 FROM outbound_mails WHERE sources IS NULL")) == 1


def asked(shop: Harness, limit: int = 9) -> list[tuple[str, int]]:
    """Return the subjects that are listed, each with how many there are; the day's figure is the same."""
    with shop.live.database.snapshot() as connection:
        rows = knowledge.list_unanswered(connection, shop.live.now() - DAY, limit)
        day = day_begins_at(rows[0].handed_over_at)
        counted = daily_figures.figures_of(connection, day, None)
    assert {row.in_all for row in rows} == {counted[Figure.QUESTIONS, ""]}
    return [(row.subject, row.in_all) for row in rows]


def test_a_question_stays_asked_when_the_team_gives_the_conversation_back(shop: Harness) -> None:
    shop.write("Do you repair kettles?", subject="Repairs")
    handed_over(shop, "NOT_IN_KNOWLEDGE")
    by_button(shop)
    assert asked(shop) == [("Repairs", 1)]
    handed_over(shop, "CUSTOMER_ASKED")
    by_button(shop)
    handed_over(shop, "NOT_IN_KNOWLEDGE")
    assert asked(shop) == [("Repairs", 1)]


def test_a_question_stays_asked_when_its_customer_is_erased(shop: Harness) -> None:
    shop.write("Do you repair kettles?", subject="Repairs")
    handed_over(shop, "NOT_IN_KNOWLEDGE")
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE outbound_mails SET status = 'sent'")
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    assert [number for _, number in asked(shop)] == [1]


@pytest.mark.parametrize("limit", [1, 2])
def test_pages_say_how_many_questions_they_do_not_list(
    shop: Harness, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    for address in (ADA, GRACE):
        shop.write("Do you repair kettles?", from_address=address)
    with shop.live.database.transaction() as connection:
        for row in shop.rows("SELECT conversation_id FROM conversations"):
            why, now = HandOverReason.NOT_IN_KNOWLEDGE.value, shop.live.now()
            conversations.hand_over(connection, row.conversation_id, why, now)
    client = shop.log_in(MONA)
    for module, path in ((report, "/ops/report"), (agent, "/ops/knowledge")):
        monkeypatch.setattr(module, "QUESTIONS_SHOWN", limit)
        assert ("1 more is not listed." in client.get(path).text) is (limit == 1)
