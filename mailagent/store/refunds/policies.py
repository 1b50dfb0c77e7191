"""Every policy that ever decided, kept as it was written then."""

from __future__ import annotations

import hashlib
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.policy import Policy
from mailagent.store import schema
from mailagent.store.database import insert_once

_versions = schema.policy_versions

_SOURCE_OF = sa.select(_versions.c.source).where(_versions.c.version == sa.bindparam("version"))


def record(connection: sa.Connection, policy: Policy, now: datetime) -> str:
    """Keep the policy's text if it is new; return the version that it is on record under.

    That is its own name, unless another text has that name already: then a digest is added, so that
    a decision never points at rules it was not made by.
    """
    for version in (policy.version, marked(policy)):
        stored = _stored(connection, version)
        if stored is None:
            values = {"version": version, "source": policy.source, "first_used_at": now}
            insert_once(connection, _versions, values, "version")
            stored = _stored(connection, version)
        if stored == policy.source:
            return version
    raise LookupError(f"policy {policy.version} is on record with other words; rename the version")


def version_of(connection: sa.Connection, policy: Policy) -> str:
    """Return the version that decisions of this policy are recorded under; nothing is written."""
    stored = _stored(connection, policy.version)
    return policy.version if stored in (None, policy.source) else marked(policy)


def marked(policy: Policy) -> str:
    """Return the policy's name with a digest of its text."""
    return f"{policy.version}-{hashlib.sha256(policy.source.encode()).hexdigest()[:12]}"


def _stored(connection: sa.Connection, version: str) -> str | None:
    source: str | None = connection.scalar(_SOURCE_OF, {"version": version})
    return source
