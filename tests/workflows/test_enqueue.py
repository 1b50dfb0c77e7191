"""A wake-up is part of the transaction that writes the row."""

from __future__ import annotations

import json
from typing import Any

from mailagent.domain.operations.run_about import RunAbout
from tests.cast import ADA, GRACE
from tests.harness import Harness

ABOUT = RunAbout("conversation_1", customer_email=ADA)


def runs(shop: Harness) -> list[Any]:
    schema = "dbos." if shop.live.database.engine.dialect.name == "postgresql" else ""
    return shop.rows(f"SELECT * FROM {schema}workflow_status ORDER BY created_at")


def test_enqueuing_twice_starts_one_run_with_the_first_attributes(
    shop: Harness,
) -> None:
    client, seen = shop.live.workflow_client, []
    for about in (ABOUT, RunAbout("conversation_1", customer_email=GRACE)):
        with shop.live.database.transaction() as connection:
            client.queue.enqueue_conversation(connection, "conversation_1", "mail_1", 0, about)
        seen += runs(shop)
    run, again = seen
    # When it was changed says for how long it has been quiet.
    assert run == again
    attributes = run.attributes
    known = json.loads(attributes) if isinstance(attributes, str) else attributes
    assert known == ABOUT.attributes("conversation_1")


def test_an_enqueue_that_is_rolled_back_starts_nothing(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        shop.live.workflow_client.queue.enqueue_conversation(
            connection, "conversation_1", "mail_1", 0, ABOUT
        )
        connection.rollback()
    assert runs(shop) == []
