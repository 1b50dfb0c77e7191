"""The versions of the policy that decided on refunds, and the sums for its caps."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.policy_rules import Granted
from mailagent.domain.refunds.refund import HOLDING, RefundStatus
from mailagent.domain.remedies.remedy import price_units
from mailagent.store import audit, schema
from mailagent.store.database import insert_once
from mailagent.store.refunds import orders, refund_payments, remedies

_versions, _refunds, _payments = schema.policy_versions, schema.refunds, schema.refund_payments


def record(connection: sa.Connection, policy: Policy, now: datetime) -> str:
    """Store the policy's text if it is new; return the version under which it is stored.

    That is the policy's own version, with a digest added if another text has it: a decision must never refer to
    rules that did not make it. Raises LookupError if another text has that version, too.
    """
    for version in (policy.version, _with_digest(policy)):
        values = {"version": version, "source": policy.source, "first_used_at": now}
        source = _find_source(connection, version)
        if source is None:
            insert_once(connection, _versions, values, "version")
            source = _find_source(connection, version)
        if source == policy.source:
            return version
    raise LookupError(f"policy {policy.version} is stored with another text; rename the version")


def version_of(connection: sa.Connection, policy: Policy) -> str:
    """Return the version under which `record` would store this policy, without storing it."""
    source = _find_source(connection, policy.version)
    return policy.version if source in (None, policy.source) else _with_digest(policy)


def _with_digest(policy: Policy) -> str:
    return f"{policy.version}-{hashlib.sha256(policy.source.encode()).hexdigest()[:12]}"


def _find_source(connection: sa.Connection, version: str) -> str | None:
    query = sa.select(_versions.c.source).where(_versions.c.version == version)
    source: str | None = connection.scalar(query)
    return source


# --- caps -----------------------------------------------------------------------------------------


def granted(
    connection: sa.Connection,
    since: datetime,
    currency: str,
    email: str | None = None,
    but: Collection[str] = (),
) -> Granted:
    """Return what the policy granted without a manager since a time, refunds and goods sent again: the number
    in all currencies, and the sum in one currency. `email`: only this customer's; None: all. `but`: the ids of
    remedies that do not count."""
    refunded = _refunded(connection, since, currency, email)
    sent = [
        each
        for each in remedies.list_unasked(connection, since, email)
        if each.remedy_id not in but
    ]
    known = orders.list_to_price(connection, {each.order_id for each in sent}) if sent else {}
    minor = sum(
        price_units(known[each.order_id], each)
        for each in sent
        if each.order_id in known and known[each.order_id].currency == currency
    )
    return Granted(refunded.count + len(sent), refunded.minor + minor)


def _refunded(
    connection: sa.Connection, since: datetime, currency: str, email: str | None
) -> Granted:
    owned = schema.orders.c
    theirs = sa.select(owned.order_id).where(owned.customer_email == email)
    whose = sa.true() if email is None else _refunds.c.order_id.in_(theirs)
    part_paid = (
        sa.select(sa.func.coalesce(sa.func.sum(_payments.c.amount_minor), 0))
        .where(_payments.c.refund_id == _refunds.c.refund_id, refund_payments.PAID)
        .scalar_subquery()
    )
    held = sa.case(
        (_refunds.c.status.in_([each.value for each in HOLDING]), _refunds.c.amount_minor),
        (_refunds.c.status == RefundStatus.FAILED.value, part_paid),
        else_=0,
    )
    in_currency = sa.case((_refunds.c.currency == currency, held), else_=0)
    query = sa.select(
        sa.func.coalesce(sa.func.sum(sa.case((held > 0, 1), else_=0)), 0),
        sa.func.coalesce(sa.func.sum(in_currency), 0),
    ).where(_refunds.c.decided_by == audit.POLICY, _refunds.c.requested_at >= since, whose)
    count, minor = connection.execute(query).one()
    return Granted(int(count), int(minor))
