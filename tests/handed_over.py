"""Conversations that were handed over to people, and given back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mailagent.store import schema
from mailagent.workflows.steps.conversation import people
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.maintenance import flood, sweep
from tests.cast import TESS
from tests.harness import Harness, post_form
from tests.workflows.moves import person_move


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


def throttle(shop: Harness) -> None:
    """Throttle all mail."""
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'throttled', no_answer_reason = 'a budget'"
        )


def overdue_while_throttled(shop: Harness) -> None:
    throttle(shop)
    waited(shop)
    flood.give_overdue_to_people()


def by_button(shop: Harness) -> None:
    path = f"/ops/conversations/{thread(shop).conversation_id}/give-back"
    assert post_form(shop.log_in(TESS), path, page="/ops").status_code == 303


def handed_over(shop: Harness, why: str = "PROVIDER_DOWN") -> Batch:
    """Let the agent hand over what waits; return what its run worked on."""
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert batch["task"] == "answer"
    people.hand_over(batch, person_move(why))
    return batch


def write_for_team(shop: Harness, text: str, **headers: str | None) -> None:
    """Let Tess answer the case by mail, and have her words dealt with."""
    door = f"team+{thread(shop).team_token}@shop.example"
    headers = {"subject": "Re: My order", **headers}
    shop.write(text, from_address=TESS, to=door, **headers)
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert batch["task"] == "forward"
    people.forward_team_replies(batch)
