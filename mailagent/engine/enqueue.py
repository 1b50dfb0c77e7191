"""Enqueues a workflow, or wakes it, in the transaction that writes its row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB

from mailagent.domain.operations.run_about import RunAbout, hash_customer
from mailagent.engine.client import Part
from mailagent.engine.names import (
    ACTIVE,
    APPLICATION_NAME,
    CONVERSATION,
    DELIVERY,
    QUEUE_OF,
    REFUND,
    WAKE_TOPIC,
    run_id_of,
)
from mailagent.telemetry import log_ids, spans

# Where DBOS keeps the W3C trace context that a run was given (`dbos._context.OTEL_CARRIER_ATTRIBUTE`).
_CARRIER = "dbos.otelContext"


def partition_of(conversation_id: str, about: RunAbout, proven: bool) -> str:
    """Return behind whom a run of a conversation queues: behind those of the same customer, so that a
    thousand mails of one hold up nobody else. A hash stands for the address."""
    if about.customer_email is None:
        return conversation_id
    customer = hash_customer(about.customer_email)
    return customer if proven else f"{customer}-unproven"


# Says of a refund's id whether there is more to see than when its run began to wait.
HasMovedOn = Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]


class Queue(Part):
    """Enqueues workflows and wakes them. `about`: what operators find a run by; None costs one query."""

    def enqueue_conversation(
        self,
        connection: sa.Connection,
        conversation_id: str,
        mail_id: str,
        again: int = 0,
        about: RunAbout | None = None,
        proven: bool = True,
    ) -> str:
        """Queue a run for the thread that a mail came into, and return the run's id.

        `again` counts the sweep's repeats, each of which needs an id of its own. `proven`: whether the
        mail is known to be its sender's; who writes in a customer's name does not stand in their queue.
        """
        run_id = run_id_of(CONVERSATION, mail_id, again)
        return self._enqueue(connection, CONVERSATION, run_id, conversation_id, about, proven)

    def enqueue_refund(
        self,
        connection: sa.Connection,
        refund_id: str,
        run_id: str | None,
        again: int | str = 0,
        about: RunAbout | None = None,
    ) -> str:
        """Make the run that looks after a refund look at its row, or a fork of it when that has ended;
        queue one when there is none. Returns the run that looks after it now. All forks of the first run
        hear the wake-up: one that waits in vain would stand among the runs at work for an hour.

        `again` counts the sweep's repeats, or says why there is one more run, such as "decided".
        """
        log_ids.note(refund_id)
        if run_id is not None and self._has_woken_alone(connection, run_id):
            return run_id
        at_work = None if run_id is None else self._find_at_work(connection, run_id)
        if at_work is None:
            fresh = run_id_of(REFUND, refund_id, again)
            return self._enqueue(connection, REFUND, fresh, refund_id, about)
        with spans.wake_up(REFUND, self._carried(connection, at_work)):
            self._client.send_in_transaction(
                connection,
                self._first_of(connection, at_work),
                WAKE_TOPIC,
                topic=WAKE_TOPIC,
                send_to_forks=True,
            )
        return at_work

    def wake_overdue(self, connection: sa.Connection, run_id: str, why: str) -> None:
        """Make a run at work look, though by its worker's clock it has time: once for each `why`."""
        self._client.send_in_transaction(
            connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC, idempotency_key=why
        )

    def enqueue_delivery(
        self,
        connection: sa.Connection,
        outbound_id: str,
        again: int | str = 0,
        about: RunAbout | None = None,
    ) -> str:
        """Queue a run that sees to it that a mail of ours goes out, or is known not to.

        `again` tells apart why it is woken once more, such as "undelivered".
        """
        run_id = run_id_of(DELIVERY, outbound_id, again)
        return self._enqueue(connection, DELIVERY, run_id, outbound_id, about)

    def describe_hold_up(self, run_id: str, held_up_by: str) -> None:
        """Say among a run's attributes what held it up last: it is shown in the DBOS console."""
        attributes = {"held_up_by": str(held_up_by)}
        self._client.update_workflow_attributes(run_id, attributes, merge=True)

    def wake_unheard(
        self, connection: sa.Connection, has_moved_on: HasMovedOn, before: datetime
    ) -> int:
        """Wake the runs of refunds that have moved on, begun before a time and not woken since they
        began; each once, for then it has been woken. Returns how many that were."""
        runs = self._runs.c
        notifications = self._notifications.c
        woken = (
            sa.select(sa.literal(1))
            .where(
                notifications.destination_uuid == runs.workflow_uuid,
                notifications.created_at_epoch_ms >= runs.started_at_epoch_ms,
            )
            .correlate(self._runs)
            .exists()
        )
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING",
            runs.name == REFUND,
            runs.started_at_epoch_ms < round(before.timestamp() * 1000),
            ~woken,
            has_moved_on(self._subject()),
        )
        unheard = list(connection.scalars(query))
        for run_id in unheard:
            self._client.send_in_transaction(connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return len(unheard)

    def wake_deliveries_at_work(
        self, connection: sa.Connection, outbound_ids: Sequence[str]
    ) -> None:
        """Wake the runs that wait with these mails of ours."""
        if not outbound_ids:
            return
        runs = self._runs.c
        waiting = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name == DELIVERY, self._subject().in_(outbound_ids)
        )
        for run_id in list(connection.scalars(waiting)):
            self._client.send_in_transaction(connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC)

    def is_answering(self, connection: sa.Connection, conversation_id: str) -> bool:
        """Return whether a run is at work on a conversation's mail."""
        runs = self._runs.c
        at_work = sa.select(sa.literal(1)).where(
            runs.status == "PENDING",
            runs.name == CONVERSATION,
            self._subject() == conversation_id,
        )
        return connection.scalar(at_work.limit(1)) is not None

    def is_at_work(self, connection: sa.Connection, run_id: str) -> bool:
        """Return, within the caller's transaction, whether a run has yet to end."""
        runs = self._runs.c
        status = sa.select(runs.status).where(runs.workflow_uuid == run_id)
        return connection.scalar(status) in ACTIVE

    def _has_woken_alone(self, connection: sa.Connection, run_id: str) -> bool:
        """Make a run look that has yet to end and was never forked, nor is a fork: so nobody else is to hear
        the wake-up, and a function in the database can wake it. Return whether it is so. Not in a trace, which
        the client carries on."""
        if self._is_sqlite or spans.is_on():
            return False
        return connection.scalar(self._wake_alone, {"run": run_id}) is not None

    @cached_property
    def _wake_alone(self) -> sa.Select[Any]:
        """Wakes a run that is at work, and neither has a fork nor is one."""
        runs, forks = self._runs.c, self._runs.alias("forks")
        has_forks = (
            sa.select(sa.literal(1)).where(forks.c.forked_from == runs.workflow_uuid).exists()
        )
        is_active = sa.or_(*(runs.status == state for state in sorted(ACTIVE)))
        is_alone = sa.and_(is_active, runs.forked_from.is_(None), ~has_forks)
        # Not WHERE: wake-ups are sent only for a row that was found so.
        woken = sa.case((is_alone, SEND_WAKE_UP))
        return sa.select(woken).where(runs.workflow_uuid == sa.bindparam("run"))

    def _find_at_work(self, connection: sa.Connection, run_id: str) -> str | None:
        """Return a run if it has yet to end, else its newest fork that has, or None."""
        if self.is_at_work(connection, run_id):
            return run_id
        runs = self._runs.c
        forks = sa.select(runs.workflow_uuid).where(
            runs.forked_from == run_id, runs.status.in_(sorted(ACTIVE))
        )
        found: str | None = connection.scalar(forks.order_by(runs.created_at.desc()).limit(1))
        return found

    def _first_of(self, connection: sa.Connection, run_id: str) -> str:
        """Return the run that a run was forked from, and that one, as far back as they are kept."""
        runs, parents = self._runs.c, self._runs.alias("parents")
        parent_of = sa.select(parents.c.workflow_uuid).join(
            self._runs, runs.forked_from == parents.c.workflow_uuid
        )
        first = run_id
        while parent := connection.scalar(parent_of.where(runs.workflow_uuid == first)):
            first = parent
        return first

    def _carried(self, connection: sa.Connection, run_id: str) -> dict[str, str]:
        """Return of which trace a run is, as DBOS keeps it among the run's attributes."""
        if not spans.is_on():
            return {}
        runs = self._runs.c
        found = connection.scalar(sa.select(runs.attributes).where(runs.workflow_uuid == run_id))
        attributes = json.loads(found) if isinstance(found, str) else found
        carried: dict[str, str] = (attributes or {}).get(_CARRIER, {})
        return carried

    def _enqueue(
        self,
        connection: sa.Connection,
        workflow: str,
        run_id: str,
        subject: str,
        about: RunAbout | None,
        proven: bool = True,
    ) -> str:
        known = about if about is not None else self._describe(connection, subject)
        log_ids.note(subject, known.conversation_id)
        attributes: dict[str, Any] = known.attributes(subject)
        options: dict[str, Any] = {
            "workflow_name": workflow,
            "queue_name": QUEUE_OF[workflow],
            "workflow_id": run_id,
            "attributes": attributes,
        }
        if workflow == CONVERSATION:
            options["queue_partition_key"] = partition_of(subject, known, proven)
        with spans.wake_up(workflow) as carried:
            if carried:
                attributes[_CARRIER] = carried
            if self._is_sqlite:
                self._client.enqueue_in_transaction(connection, options, subject)  # type: ignore[arg-type]  # a TypedDict built in two steps
            else:
                queue_run(connection, options, subject)
        return run_id

    @property
    def _notifications(self) -> sa.TableClause:
        names = ("destination_uuid", "created_at_epoch_ms")
        schema = None if self._is_sqlite else "dbos"
        return sa.table("notifications", *(sa.column(name) for name in names), schema=schema)

    def _subject(self) -> sa.ColumnElement[str]:
        attributes = self._runs.c.attributes
        if self._is_sqlite:
            return sa.func.json_extract(attributes, "$.subject", type_=sa.Text)
        subject: sa.ColumnElement[str] = attributes["subject"].astext
        return subject


# --- by function ----------------------------------------------------------------------------------


def _value(name: str, type_: type[sa.types.TypeEngine[Any]] = sa.Text) -> sa.ColumnElement[Any]:
    return sa.cast(sa.bindparam(name, type_=sa.Text), type_)


_QUEUE_RUN = sa.select(
    sa.func.mailagent_queue_run(
        _value("workflow"),
        _value("queue"),
        _value("subject", JSON),
        _value("run"),
        _value("partition"),
        _value("application"),
        _value("attributes", JSONB),
    )
)
# To be called where a run `run` is looked at; what it returns says only that it was called.
SEND_WAKE_UP = sa.cast(
    sa.func.dbos.send_message(
        sa.cast(sa.bindparam("run"), sa.Text),
        sa.cast(sa.literal(json.dumps(WAKE_TOPIC), sa.Text), JSON),
        sa.cast(sa.literal(WAKE_TOPIC), sa.Text),
    ),
    sa.Text,
)


def queue_run(connection: sa.Connection, options: Mapping[str, Any], subject: str) -> None:
    """Queue a run about a row unless it is queued already. `options`: as for `DBOSClient.enqueue`."""
    values = {
        "workflow": options["workflow_name"],
        "queue": options["queue_name"],
        "subject": json.dumps(subject),
        "run": options["workflow_id"],
        "partition": options.get("queue_partition_key"),
        "application": APPLICATION_NAME,
        "attributes": json.dumps(options["attributes"]),
    }
    connection.execute(_QUEUE_RUN, values)
