"""A run that DBOS's function in the database queues is the one that its client would have queued."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent.domain.operations.run_about import RunAbout
from mailagent.engine.enqueue import partition_of
from mailagent.engine.names import APPLICATION_NAME, CONVERSATION, QUEUE_OF, REFUND, WAKE_TOPIC
from tests.cast import ADA, GRACE
from tests.harness import Harness

on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

ABOUT = RunAbout("conversation_1", customer_email=ADA)
# Whose token a row holds and when it was written; the rest is what a worker goes by.
OF_THE_MOMENT = {
    "workflow_uuid", "created_at", "updated_at", "owner_xid", "creator_xid", "inputs",
    "retention_timestamp",
}  # fmt: skip


@pytest.fixture
def client(shop: Harness) -> Iterator[DBOSClient]:
    connected = DBOSClient(
        system_database_engine=shop.live.database.engine,
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION_NAME,
        lazy=True,
    )
    yield connected
    connected.destroy()


def row(connection: sa.Connection, table: str, run_id: str) -> dict[str, Any]:
    found = connection.execute(
        sa.text(f"SELECT * FROM dbos.{table} WHERE workflow_uuid = :id"), {"id": run_id}
    )
    return dict(found.mappings().one())


def stable(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in OF_THE_MOMENT}


@on_postgresql
@pytest.mark.parametrize("workflow", [CONVERSATION, REFUND])
def test_a_run_is_queued_as_dbos_s_client_queues_it(
    shop: Harness, client: DBOSClient, workflow: str
) -> None:
    subject = "conversation_1" if workflow == CONVERSATION else 'refund "1" é'
    options: dict[str, Any] = {
        "workflow_name": workflow,
        "queue_name": QUEUE_OF[workflow],
        "workflow_id": "by-the-client",
        "attributes": ABOUT.attributes(subject),
    }
    if workflow == CONVERSATION:
        options["queue_partition_key"] = partition_of(subject, ABOUT, True)
    with shop.live.database.transaction() as connection:
        client.enqueue_in_transaction(connection, options, subject)  # type: ignore[arg-type]
        if workflow == CONVERSATION:
            ours = shop.live.workflow_client.queue.enqueue_conversation(
                connection, subject, "mail_1", 0, ABOUT
            )
        else:
            ours = shop.live.workflow_client.queue.enqueue_refund(
                connection, subject, None, 0, ABOUT
            )
        theirs = row(connection, "workflow_status", "by-the-client")
        mine = row(connection, "workflow_status", ours)
        assert stable(mine) == stable(theirs)
        assert mine["status"] == "ENQUEUED"
        for name in ("created_at", "updated_at"):
            assert abs(mine[name] - theirs[name]) < 60_000
        inputs = [row(connection, "workflow_input", each) for each in (ours, "by-the-client")]
        assert json.loads(inputs[0]["inputs"]) == json.loads(inputs[1]["inputs"])
        assert abs(inputs[0]["retention_timestamp"] - inputs[1]["retention_timestamp"]) < 60_000
        connection.rollback()


@on_postgresql
def test_a_run_is_made_to_look_as_dbos_s_client_does_it(shop: Harness, client: DBOSClient) -> None:
    with shop.live.database.transaction() as connection:
        for number in (1, 2):
            shop.live.workflow_client.queue.enqueue_refund(
                connection, f"refund_{number}", None, 0, ABOUT
            )
        first, other = (run.workflow_uuid for run in runs_in(connection))
        client.send_in_transaction(
            connection, other, WAKE_TOPIC, topic=WAKE_TOPIC, send_to_forks=True
        )
        assert (
            shop.live.workflow_client.queue.enqueue_refund(connection, "refund_1", first) == first
        )
        told = {
            row["destination_uuid"]: dict(row)
            for row in connection.execute(sa.text("SELECT * FROM dbos.notifications")).mappings()
        }
        assert len(told) == 2
        assert len({row.pop("message_uuid") for row in told.values()}) == 2
        for row in told.values():
            del row["destination_uuid"], row["created_at_epoch_ms"]
        assert told[first] == told[other]
        connection.rollback()


def runs_in(connection: sa.Connection) -> list[Any]:
    return list(
        connection.execute(sa.text("SELECT * FROM dbos.workflow_status ORDER BY workflow_uuid"))
    )


def runs(shop: Harness) -> list[Any]:
    schema = "dbos." if shop.live.database.engine.dialect.name == "postgresql" else ""
    return shop.rows(f"SELECT * FROM {schema}workflow_status ORDER BY created_at")


def test_a_bell_that_is_rung_twice_queues_one_run_and_says_what_it_was_about_at_first(
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


def test_a_bell_is_silent_until_the_commit(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        shop.live.workflow_client.queue.enqueue_conversation(
            connection, "conversation_1", "mail_1", 0, ABOUT
        )
        connection.rollback()
    assert runs(shop) == []
