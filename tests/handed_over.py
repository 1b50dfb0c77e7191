"""Conversations that were handed over to people, and given back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mailagent.store import schema
from mailagent.workflows.steps.maintenance import flood, sweep
from tests.cast import TESS
from tests.harness import Harness, post_form


def thread(shop: Harness) -> Any:
    return shop.rows("SELECT * FROM conversations")[0]


def customer_mails(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM inbound_mails WHERE kind = 'customer' ORDER BY mail_id")


def waited(shop: Harness) -> None:
    """Let five hours pass for the mail there is."""
    mails = schema.inbound_mails
    with shop.live.database.transaction() as connection:
        moment = shop.live.now() - timedelta(hours=5)
        connection.execute(mails.update().values(received_at=moment))


def overdue(shop: Harness) -> None:
    waited(shop)
    assert sweep.enqueue_mail() == 1


def overdue_while_throttled(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'throttled', no_answer_reason = 'a budget'"
        )
    waited(shop)
    flood.give_overdue_to_people()


def by_button(shop: Harness) -> None:
    path = f"/ops/conversations/{thread(shop).conversation_id}/give-back"
    assert post_form(shop.log_in(TESS), path, page="/ops").status_code == 303
