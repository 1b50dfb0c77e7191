"""Runs that wait, found by their rows. Some have missed their bell: DBOS takes the messages of a run away when
it is rewound, and gives none to a fork. We ring after both; the DBOS console and `dbos workflow` do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.engine.client import Connected
from mailagent.engine.names import CONVERSATION, DELIVERY, LOOK, REFUND

# Says of a refund's id whether there is more to see than when its run began to wait.
HasMovedOn = Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]


class Unheard(Connected):
    """Rings runs that wait for a bell that has rung already, and that they cannot have heard."""

    def ring_unheard(
        self, connection: sa.Connection, has_moved_on: HasMovedOn, before: datetime
    ) -> int:
        """Ring the runs of refunds that have moved on, begun before a time and not rung since they
        began; each once, for then it has been rung. Returns how many that were."""
        runs = self._runs.c
        bells = self._bells.c
        rung = (
            sa.select(sa.literal(1))
            .where(
                bells.destination_uuid == runs.workflow_uuid,
                bells.created_at_epoch_ms >= runs.started_at_epoch_ms,
            )
            .correlate(self._runs)
            .exists()
        )
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING",
            runs.name == REFUND,
            runs.started_at_epoch_ms < round(before.timestamp() * 1000),
            ~rung,
            has_moved_on(self._subject()),
        )
        unheard = list(connection.scalars(query))
        for run_id in unheard:
            self._client.send_in_transaction(connection, run_id, LOOK, topic=LOOK)
        return len(unheard)

    def ring_deliveries_at_work(
        self, connection: sa.Connection, outbound_ids: Sequence[str]
    ) -> None:
        """Ring the runs that wait with these mails of ours."""
        if not outbound_ids:
            return
        runs = self._runs.c
        waiting = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name == DELIVERY, self._subject().in_(outbound_ids)
        )
        for run_id in list(connection.scalars(waiting)):
            self._client.send_in_transaction(connection, run_id, LOOK, topic=LOOK)

    def is_answering(self, connection: sa.Connection, conversation_id: str) -> bool:
        """Return whether a run is at work on a conversation's mail."""
        runs = self._runs.c
        at_work = sa.select(sa.literal(1)).where(
            runs.status == "PENDING",
            runs.name == CONVERSATION,
            self._subject() == conversation_id,
        )
        return connection.scalar(at_work.limit(1)) is not None

    @property
    def _bells(self) -> sa.TableClause:
        names = ("destination_uuid", "created_at_epoch_ms")
        schema = None if self._is_sqlite else "dbos"
        return sa.table("notifications", *(sa.column(name) for name in names), schema=schema)

    def _subject(self) -> sa.ColumnElement[str]:
        attributes = self._runs.c.attributes
        if self._is_sqlite:
            return sa.func.json_extract(attributes, "$.subject", type_=sa.Text)
        subject: sa.ColumnElement[str] = attributes["subject"].astext
        return subject
