"""Drafts as rows: answers of the agent that a person sends, edits or discards.

Lock the conversation before you change a draft, so that the first of two clicks wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.draft import Draft, DraftState
from mailagent.store import schema
from mailagent.store.database import count_rows, from_row, update_rows
from mailagent.store.ids import new_id

_drafts, _mails = schema.drafts, schema.inbound_mails

_WAITING = _drafts.c.state == DraftState.WAITING.value


def record(
    connection: sa.Connection,
    conversation_id: str,
    mail_ids: Sequence[str],
    topics: Sequence[str],
    text: str,
    now: datetime,
    composition: str | None = None,
) -> str:
    """Record a draft that answers these mails; return its id.

    `composition`: the phrases, facts and words that `text` was made of, as JSON.
    """
    draft_id = new_id("draft")
    connection.execute(
        _drafts.insert().values(
            draft_id=draft_id,
            conversation_id=conversation_id,
            mail_ids=list(mail_ids),
            topics=list(topics),
            text=text,
            composition=composition,
            state=DraftState.WAITING.value,
            created_at=now,
        )
    )
    update_rows(connection, _mails, _mails.c.mail_id.in_(mail_ids), draft_id=draft_id)
    return draft_id


def find(connection: sa.Connection, draft_id: str) -> Draft | None:
    found = _list(connection, _drafts.c.draft_id == draft_id)
    return found[0] if found else None


def list_waiting_of(connection: sa.Connection, conversation_id: str) -> tuple[Draft, ...]:
    """Return the waiting drafts of a conversation, oldest first: at most one for mail of a proven sender, and
    one for mail of an unproven sender."""
    return _list(connection, sa.and_(_WAITING, _drafts.c.conversation_id == conversation_id))


def _list(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[Draft, ...]:
    query = sa.select(_drafts).where(where).order_by(_drafts.c.created_at, _drafts.c.draft_id)
    return tuple(
        from_row(
            Draft,
            row,
            mail_ids=tuple(row.mail_ids),
            topics=tuple(row.topics),
            state=DraftState(row.state),
        )
        for row in connection.execute(query)
    )


# --- what becomes of them -------------------------------------------------------------------------


def record_decision(
    connection: sa.Connection,
    draft_id: str,
    state: DraftState,
    decided_by: str,
    now: datetime,
    outbound_id: str | None = None,
) -> bool:
    """Record what a person did with a draft. If it does not wait any more, change nothing and return False."""
    here = _drafts.c.draft_id == draft_id
    values = {"decided_by": decided_by, "decided_at": now, "outbound_id": outbound_id}
    return update_rows(connection, _drafts, here, _WAITING, state=state.value, **values) == 1


def supersede(
    connection: sa.Connection,
    draft_ids: Sequence[str],
    decided_by: str,
    now: datetime,
    run_id: str | None = None,
) -> list[str]:
    """Supersede waiting drafts, so that their mails wait for an answer again; return the ids of these drafts.
    `run_id`: the run that answers the mails now, if it is known."""
    values = {"state": DraftState.SUPERSEDED.value, "decided_by": decided_by, "decided_at": now}
    superseded = (
        _drafts.update().where(_drafts.c.draft_id.in_(draft_ids), _WAITING).values(**values)
    )
    taken = sorted(connection.scalars(superseded.returning(_drafts.c.draft_id)))
    freed = {"draft_id": None, **({"run_id": run_id} if run_id else {})}
    if taken:
        update_rows(connection, _mails, _mails.c.draft_id.in_(taken), **freed)
    return taken


def supersede_all_of(
    connection: sa.Connection, conversation_id: str, decided_by: str, now: datetime
) -> list[str]:
    waiting = [draft.draft_id for draft in list_waiting_of(connection, conversation_id)]
    return supersede(connection, waiting, decided_by, now) if waiting else []


# --- lists ----------------------------------------------------------------------------------------


def count_waiting(connection: sa.Connection) -> int:
    return count_rows(connection, _WAITING)


def find_next_waiting(connection: sa.Connection, but: str) -> str | None:
    """Return the id of the oldest waiting draft other than `but`; None if there is none."""
    others = sa.select(_drafts.c.draft_id).where(_WAITING, _drafts.c.draft_id != but)
    return connection.scalars(others.order_by(_drafts.c.draft_id).limit(1)).one_or_none()


def take_due(connection: sa.Connection, before: datetime, now: datetime) -> tuple[Draft, ...]:
    """Return the drafts that have waited since before a time and had no reminder, and record that they have
    one. If two processes ask at once, one gets them."""
    due = (
        _drafts.update()
        .where(_WAITING, _drafts.c.created_at <= before, _drafts.c.reminded_at.is_(None))
        .values(reminded_at=now)
    )
    taken = list(connection.scalars(due.returning(_drafts.c.draft_id)))
    return _list(connection, _drafts.c.draft_id.in_(taken)) if taken else ()


def superseded_at(mail: sa.Table) -> sa.ScalarSelect[datetime]:
    """Return the expression for when a draft was last superseded in the conversation of the table `mail`."""
    return (
        sa.select(sa.func.max(_drafts.c.decided_at))
        .where(
            _drafts.c.conversation_id == mail.c.conversation_id,
            _drafts.c.state == DraftState.SUPERSEDED.value,
        )
        .scalar_subquery()
    )
