"""A mail is taken to "sending" only while mail may go to its address as it is by then."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from mailagent.domain.mail.message import OutboundMail, Purpose
from mailagent.store.mail import outbound, suppressions
from mailagent.workflows.steps.delivery.send import send_mail
from tests.harness import Harness

MAIL = OutboundMail(
    outbound_id="outbound_1",
    purpose=Purpose.NOTICE,
    to_address="tess@shop.example",
    from_address="support@shop.example",
    subject="A notice",
    text="Something has happened.",
    html=None,
    message_id="outbound_1@shop.example",
)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("address", "suppressed"),
    [
        ("gone@shop.example", "gone@shop.example"),
        ("erased-1@erased.invalid", "nobody@shop.example"),
        (MAIL.to_address, MAIL.to_address),
    ],
)
def test_what_changes_while_a_claim_waits_for_the_mail_counts(
    shop: Harness, address: str, suppressed: str
) -> None:
    database, now = shop.live.database, shop.live.now()
    states: list[str] = []
    with database.transaction() as connection:
        outbound.record(connection, MAIL, "notice:1", now)
    waits = threading.Thread(target=lambda: states.append(send_mail("outbound_1")))
    with database.transaction() as connection:
        change = sa.text("UPDATE outbound_mails SET to_address = :address")
        connection.execute(change, {"address": address})
        suppressions.suppress(connection, suppressed, "bounce", now)
        waits.start()
        waits.join(0.5)
        assert waits.is_alive()
    waits.join(10)
    assert states == ["failed"]
