"""Look-ups at the order source for a conversation's customer. Without a recent one, we do not know that the
customer does not have an order."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import exists, insert_once, update_rows

_lookups = schema.order_lookups
# Stands in the place of an order id, for a list of all of the customer's orders or of the newest ones.
_ALL = ""


def record_all(
    connection: sa.Connection, conversation_id: str, now: datetime, *, complete: bool
) -> None:
    """Record that the source listed the customer's orders. `complete`: it listed all of them."""
    _record(connection, conversation_id, _ALL, now, complete)


def record_absent(
    connection: sa.Connection, conversation_id: str, order_id: str, now: datetime
) -> None:
    """Record that the source was asked for this id, and returned no order of the customer."""
    _record(connection, conversation_id, order_id, now, True)


def _record(
    connection: sa.Connection, conversation_id: str, order_id: str, now: datetime, complete: bool
) -> None:
    values = {"looked_up_at": now, "complete": complete}
    key = {"conversation_id": conversation_id, "order_id": order_id}
    if not insert_once(connection, _lookups, {**key, **values}, *key):
        where = [_lookups.c[name] == value for name, value in key.items()]
        update_rows(connection, _lookups, *where, **values)


def are_listed(connection: sa.Connection, conversation_id: str, since: datetime) -> bool:
    """Return whether the source has listed the customer's orders since a time."""
    return _exists(connection, conversation_id, since, _lookups.c.order_id == _ALL)


def listed_at(connection: sa.Connection, conversation_id: str) -> datetime | None:
    """Return when the source last listed the customer's orders for a conversation."""
    here = (_lookups.c.conversation_id == conversation_id, _lookups.c.order_id == _ALL)
    at: datetime | None = connection.scalar(sa.select(_lookups.c.looked_up_at).where(*here))
    return at


def is_complete(connection: sa.Connection, conversation_id: str) -> bool:
    """Return whether the source listed all of the customer's orders when it last listed them for a
    conversation."""
    here = (_lookups.c.conversation_id == conversation_id, _lookups.c.order_id == _ALL)
    return exists(connection, *here, _lookups.c.complete)


def is_absent(
    connection: sa.Connection, conversation_id: str, order_id: str, since: datetime
) -> bool:
    """Return whether the source has shown, since a time, that the customer has no order with this id other than
    the stored ones: it said so, or listed all orders."""
    listed = sa.and_(_lookups.c.order_id == _ALL, _lookups.c.complete)
    alone = _lookups.c.order_id == order_id
    return _exists(connection, conversation_id, since, sa.or_(listed, alone))


def _exists(
    connection: sa.Connection, conversation_id: str, since: datetime, where: sa.ColumnElement[bool]
) -> bool:
    here = (_lookups.c.conversation_id == conversation_id, _lookups.c.looked_up_at >= since)
    return exists(connection, *here, where)
