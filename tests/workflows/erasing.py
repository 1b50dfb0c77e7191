"""Erases Ada, however far her mail is."""

from __future__ import annotations

from mailagent.store import schema
from mailagent.store.privacy import erasure
from tests.cast import ADA, OLGA
from tests.harness import Harness


def erase(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        done = {"status": "no_answer", "no_answer_reason": "thanks"}
        connection.execute(schema.inbound_mails.update().values(done))
        connection.execute(schema.outbound_mails.update().values(status="sent"))
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
