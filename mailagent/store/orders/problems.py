"""Stored orders that we cannot look up at their source, and since when. So a refund of one waits only for some
time, and operators get one mail: it names the first such order. While its incident is open, others get none."""

from __future__ import annotations

from datetime import datetime
from typing import cast

import sqlalchemy as sa

from mailagent.domain.orders.freshness import Freshness
from mailagent.store import schema
from mailagent.store.database import exists, update_rows

_orders, _refunds = schema.orders, schema.refunds
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
    problem = {"look_up_problem": found.value, "look_up_problem_at": began}
    return update_rows(connection, _orders, here, is_new, **problem) > 0


def find_answer(connection: sa.Connection, order_id: str) -> Freshness | None:
    """Return the kind of the problem in the source's last answer about an order, or None."""
    query = sa.select(_kind).where(_orders.c.order_id == order_id, _kind.in_(_ANSWERS))
    return next(map(Freshness, connection.scalars(query)), None)


def meet(connection: sa.Connection, refund_id: str, order_id: str, now: datetime) -> datetime:
    """Record that the payment of a refund meets its order's problem. Return when it first met it: `now` if the
    problem is new to the refund, or has just ended."""
    here = _refunds.c.refund_id == refund_id
    query = sa.select(_at, _refunds.c.look_up_problem_met_at)
    began, met = connection.execute(
        query.select_from(_orders.join(_refunds, here)).where(_orders.c.order_id == order_id)
    ).one()
    if began is None:
        return now
    if met is None or met < began:
        update_rows(connection, _refunds, here, look_up_problem_met_at=now)
        return now
    return cast(datetime, met)


def has_problem(connection: sa.Connection, order_id: str) -> bool:
    """Return whether the last look-up of an order failed, also because the source was away."""
    return exists(connection, _orders.c.order_id == order_id, _kind.is_not(None))


def has_any(connection: sa.Connection, since: datetime) -> bool:
    """Return whether the source's answer about any order became unusable at this time or later, and still
    is."""
    return exists(connection, _at >= since, _kind.in_(_ANSWERS))
