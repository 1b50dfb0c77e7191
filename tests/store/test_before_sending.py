"""Taking a mail to "sending": only while mail may go to its address as it is by then."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from mailagent.domain.breaker import Provider
from mailagent.domain.mail import OutboundMail, Purpose
from mailagent.store import before_sending, outbox, suppression
from tests.stage import Stage

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
@pytest.mark.parametrize("address", ["gone@shop.example", "erased-1@erased.invalid"])
def test_whose_address_changes_while_we_wait_is_looked_up_as_it_is_then(
    shop: Stage, address: str
) -> None:
    database, now = shop.live.database, shop.live.now()
    found: list[OutboundMail | None] = []

    def claim() -> None:
        with database.statement() as connection:
            found.append(
                before_sending.claim_plainly(connection, "outbound_1", Provider.SENDGRID, now)
            )

    with database.transaction() as connection:
        outbox.record(connection, MAIL, "notice:1", now)
        suppression.suppress(connection, "gone@shop.example", "bounce", now)
    waits = threading.Thread(target=claim)
    with database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE outbound_mails SET to_address = :address"), {"address": address}
        )
        waits.start()
        waits.join(0.5)
        assert waits.is_alive()
    waits.join(10)
    assert found == [None]
