"""Stored orders that we cannot look up at their source, and since when. So a refund of one waits only for some
time, and operators get one mail: it names the first such order. While its incident is open, others get none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.orders.freshness import Freshness
from mailagent.store import schema
from mailagent.store.database import exists

_orders = schema.orders
_kind, _at = _orders.c.look_up_problem, _orders.c.look_up_problem_at
# Problems in the source's answer about an order. (AWAY is not one: then there is no answer.)
_ANSWERS = (Freshness.GONE.value, Freshness.UNUSABLE.value, Freshness.REFUSED.value)


def note(connection: sa.Connection, order_id: str, found: Freshness, now: datetime) -> bool:
    """Record the outcome of a look-up; return whether the problem is new. Its time begins with the first
    unusable answer, and ends with a usable one."""
    here = _orders.c.order_id == order_id
    is_new = sa.or_(_kind.is_(None), _kind != found.value)
    if found is Freshness.AWAY:
        is_new = _kind.is_(None)
    began = sa.case((_kind.in_(_ANSWERS), _at), else_=now)
    query = _orders.update().where(here, is_new).values(look_up_problem=found.value)
    return connection.execute(query.values(look_up_problem_at=began)).rowcount > 0


def find_since(connection: sa.Connection, order_id: str) -> datetime | None:
    """Return since when an order cannot be looked up; None if its last look-up was usable."""
    query = sa.select(_at).where(_orders.c.order_id == order_id)
    since: datetime | None = connection.scalar(query)
    return since


def list_noted(connection: sa.Connection, order_ids: Sequence[str]) -> set[str]:
    """Return those of these orders that have a problem."""
    query = sa.select(_orders.c.order_id).where(_orders.c.order_id.in_(order_ids), _at.is_not(None))
    return set(connection.scalars(query))


def has_any(connection: sa.Connection, since: datetime) -> bool:
    """Return whether the source's answer about any order became unusable at this time or later, and still
    is."""
    return exists(connection, _at >= since, _kind.in_(_ANSWERS))
