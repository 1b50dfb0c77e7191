"""Enqueues a workflow, or wakes it, in the transaction that writes its row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from dbos import DBOSClient, EnqueueOptions

from mailagent.domain.operations.run_about import RunAbout, hash_customer
from mailagent.engine import (
    APPLICATION_VERSION,
    CONVERSATION,
    DELIVERY,
    INTERNAL_QUEUE,
    LOOK_UP,
    QUEUE_OF,
    REFUND,
    SWEEP,
    WAKE_TOPIC,
    run_id_of,
)
from mailagent.engine.tables import SystemTables
from mailagent.telemetry import log_ids, spans

# Where DBOS keeps a run's W3C trace context (`dbos._context.OTEL_CARRIER_ATTRIBUTE`).
_CARRIER = "dbos.otelContext"


def partition_of(conversation_id: str, about: RunAbout, proven: bool) -> str:
    """Return the partition of a conversation's run: its customer's, so that a thousand mails of one customer
    hold up no other customer. Mail that may be forged has a partition of its own."""
    if about.customer_email is None:
        return conversation_id
    customer = hash_customer(about.customer_email)
    return customer if proven else f"{customer}-unproven"


class Queue:
    """Enqueues workflows and wakes them.

    Arguments of several methods: `about` has the attributes by which operators find the run; None reads them
    with one query. `again` makes the id of a further run for the same row; enqueueing the same id twice makes
    one run.
    """

    def __init__(
        self,
        dbos: DBOSClient,
        tables: SystemTables,
        describe: Callable[[sa.Connection, str], RunAbout] | None,
    ) -> None:
        self._dbos = dbos
        self._tables = tables
        self._describe = describe or (lambda _connection, _subject: RunAbout())

    def enqueue_conversation(
        self,
        connection: sa.Connection,
        conversation_id: str,
        mail_id: str,
        again: int = 0,
        about: RunAbout | None = None,
        proven: bool = True,
    ) -> str:
        """Enqueue a run for the conversation that a mail belongs to, and return the run's id.

        `proven`: whether the mail is known to be its sender's.
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
        """Wake the run of a refund, or its active fork; enqueue one if none is active. Returns the run's id.
        `run_id`: the run to wake; None always enqueues.

        The message goes to the first run and to all its forks: a fork without it would wait for hours.
        """
        log_ids.note(refund_id)
        active = None if run_id is None else self._tables.find_active(connection, run_id)
        if active is None:
            fresh = run_id_of(REFUND, refund_id, again)
            return self._enqueue(connection, REFUND, fresh, refund_id, about)
        with spans.wake_up(REFUND, self._trace_of(active)):
            origin = self._tables.find_origin(connection, active)
            self._wake(connection, origin, send_to_forks=True)
        return active

    def enqueue_delivery(
        self, connection: sa.Connection, outbound_id: str, again: int | str = 0
    ) -> str:
        """Enqueue a run that sends a mail of ours or finds out what became of it. Returns the run's id."""
        run_id = run_id_of(DELIVERY, outbound_id, again)
        return self._enqueue(connection, DELIVERY, run_id, outbound_id, None)

    def enqueue_deliveries(self, connection: sa.Connection, outbound_ids: Iterable[str]) -> None:
        """Enqueue a run for each of these mails of ours."""
        for outbound_id in outbound_ids:
            self.enqueue_delivery(connection, outbound_id)

    def enqueue_sweep(self, connection: sa.Connection, now: datetime) -> None:
        """Enqueue a sweep. Workers that do so within the same minute enqueue one."""
        due = now.replace(second=0, microsecond=0).isoformat()
        options = EnqueueOptions(
            workflow_name=SWEEP,
            queue_name=INTERNAL_QUEUE,
            workflow_id=f"sched-{SWEEP}-{due}-late",
            app_version=APPLICATION_VERSION,
        )
        self._dbos.enqueue_in_transaction(connection, options, due, None)

    def enqueue_look_up(
        self, connection: sa.Connection, order_id: str, now: datetime, *, changed: bool = False
    ) -> str:
        """Enqueue a run that looks an order up at its source, one for all who ask in the minute of `now`.
        Returns its id. `changed`: it is said to have changed. Such runs are others, after the minute."""
        order_hash = hashlib.sha256(order_id.encode()).hexdigest()[:12]  # an id may have a slash
        run_id = f"{LOOK_UP}_{now:%Y-%m-%dT%H:%M}_{order_hash}" + ("_changed" if changed else "")
        options = EnqueueOptions(
            workflow_name=LOOK_UP,
            queue_name=INTERNAL_QUEUE,
            workflow_id=run_id,
            app_version=APPLICATION_VERSION,
        )
        if changed:
            options["delay_seconds"] = 60  # when the minute of `now` is over
        self._dbos.enqueue_in_transaction(connection, options, order_id)
        return run_id

    def wake_overdue(self, connection: sa.Connection, run_id: str, key: str) -> None:
        """Wake a run that waits although its date has passed, because its worker's clock is slow; once for each
        `key`."""
        self._wake(connection, run_id, idempotency_key=key)

    def wake_again(
        self,
        connection: sa.Connection,
        where_moved_on: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]],
        before: datetime,
    ) -> int:
        """Wake the runs that `SystemTables.list_not_woken` finds, and return how many there were."""
        not_woken = self._tables.list_not_woken(connection, where_moved_on, before)
        for run_id in not_woken:
            self._wake(connection, run_id)
        return len(not_woken)

    def wake_deliveries(self, connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
        """Wake the runs that wait to send these mails of ours."""
        if outbound_ids:
            for run_id in self._tables.list_pending(connection, DELIVERY, outbound_ids):
                self._wake(connection, run_id)

    def is_answering(self, connection: sa.Connection, conversation_id: str) -> bool:
        """Return whether a run has begun to answer a conversation's mail and not ended."""
        return bool(self._tables.list_pending(connection, CONVERSATION, [conversation_id]))

    def describe_hold_up(self, run_id: str, held_up_by: str) -> None:
        """Record in a run's attributes what it waits for. The DBOS console shows it."""
        attributes = {"held_up_by": str(held_up_by)}
        self._dbos.update_workflow_attributes(run_id, attributes, merge=True)

    def _wake(self, connection: sa.Connection, run_id: str, **options: Any) -> None:
        self._dbos.send_in_transaction(connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC, **options)

    def _trace_of(self, run_id: str) -> dict[str, str]:
        """Return the trace context of a run; nothing when tracing is off."""
        if not spans.is_on():
            return {}
        found = self._dbos.list_workflows(
            workflow_ids=[run_id], load_input=False, load_output=False
        )
        carried: dict[str, str] = (found[0].attributes or {}).get(_CARRIER, {}) if found else {}
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
        with spans.wake_up(workflow) as carried:
            if carried:
                attributes[_CARRIER] = carried
            options = EnqueueOptions(
                workflow_name=workflow,
                queue_name=QUEUE_OF[workflow],
                workflow_id=run_id,
                attributes=attributes,
            )
            if workflow == CONVERSATION:
                options["queue_partition_key"] = partition_of(subject, known, proven)
            self._dbos.enqueue_in_transaction(connection, options, subject)
        return run_id
