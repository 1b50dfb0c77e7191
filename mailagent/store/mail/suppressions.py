"""Addresses that nothing is sent to: mail bounces, the reader complained, or the customer was erased."""

from __future__ import annotations

import hashlib
from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once

_suppressed = schema.suppressed_addresses

# What stands for erased customers is in it: reserved for names that exist nowhere (RFC 2606 section 2).
ERASED_DOMAIN = "erased.invalid"


def suppress(connection: sa.Connection, address: str, reason: str, now: datetime) -> bool:
    """Record that nothing more is sent to an address; return whether that is new."""
    values = {"address": address, "reason": reason, "since": now}
    return insert_once(connection, _suppressed, values, "address")


def why_suppressed(connection: sa.Connection, address: str) -> str | None:
    """Return why nothing is sent to an address, or None when mail may go there."""
    if address.endswith(f"@{ERASED_DOMAIN}"):
        return "the customer was erased"
    query = sa.select(_suppressed.c.reason).where(_is(address))
    return connection.scalars(query.limit(1)).one_or_none()


def digest(address: str) -> str:
    """Return what stands for an erased address in the table."""
    return f"sha256:{hashlib.sha256(address.encode()).hexdigest()}"


def _is(address: str) -> sa.ColumnElement[bool]:
    return _suppressed.c.address.in_([address, digest(address)])


def allow_again(connection: sa.Connection, address: str) -> bool:
    """Record that mail may go to an address again; return whether it might not before."""
    return connection.execute(_suppressed.delete().where(_is(address))).rowcount > 0


def list_suppressed(connection: sa.Connection) -> dict[str, str]:
    """Return the addresses that nothing is sent to, each with the reason."""
    columns = _suppressed.c.address, _suppressed.c.reason
    rows = connection.execute(sa.select(*columns).order_by(_suppressed.c.since))
    return {row.address: row.reason for row in rows}
