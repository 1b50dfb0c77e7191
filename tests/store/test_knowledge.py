"""How often passages were quoted: of the newest mails only, however many there are."""

from __future__ import annotations

from datetime import timedelta

from mailagent.domain.mail.message import OutboundMail, Purpose
from mailagent.store.console import knowledge
from mailagent.store.mail import outbound
from tests.cast import ADA, SUPPORT
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
