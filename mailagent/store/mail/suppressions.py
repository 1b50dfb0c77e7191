"""Suppressions: addresses that we do not write to, because mail bounced, was reported as spam, or the customer
was erased."""

from __future__ import annotations

import hashlib
from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once

_suppressed = schema.suppressed_addresses

# The domain of the aliases of erased customers. RFC 2606 section 2 reserves `.invalid`: no such name exists.
ERASED_DOMAIN = "erased.invalid"


def is_erased(address: str) -> bool:
    """Return whether an address is the alias of an erased customer."""
    return address.endswith(f"@{ERASED_DOMAIN}")


def suppress(connection: sa.Connection, address: str, reason: str, now: datetime) -> bool:
    """Record that we do not write to an address any more; return whether that is new."""
    values = {"address": address, "reason": reason, "since": now}
    return insert_once(connection, _suppressed, values, "address")


def why_suppressed(connection: sa.Connection, address: str) -> str | None:
    """Return why we do not write to an address; None if we may."""
    if is_erased(address):
        return "the customer was erased"
    query = sa.select(_suppressed.c.reason).where(_where_address(address))
    return connection.scalars(query.limit(1)).one_or_none()


def digest(address: str) -> str:
    """Return the hash that stands for an erased address in the table."""
    return f"sha256:{hashlib.sha256(address.encode()).hexdigest()}"


def _where_address(address: str) -> sa.ColumnElement[bool]:
    return _suppressed.c.address.in_([address, digest(address)])


def allow_again(connection: sa.Connection, address: str) -> bool:
    """Delete the suppression of an address; return whether there was one."""
    return connection.execute(_suppressed.delete().where(_where_address(address))).rowcount > 0


def list_suppressed(connection: sa.Connection) -> dict[str, str]:
    """Return the reason of each suppression, by address."""
    columns = _suppressed.c.address, _suppressed.c.reason
    rows = connection.execute(sa.select(*columns).order_by(_suppressed.c.since))
    return {row.address: row.reason for row in rows}
