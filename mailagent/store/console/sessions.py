"""Logins of the shop's people: mailed links, sessions, attempts and second factors.

Only hashes of secrets are stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.store import audit, schema

_links, _attempts, _sessions = schema.login_links, schema.login_attempts, schema.sessions

KEPT = timedelta(days=7)

# Links that still log somebody in at the value `now`.
LIVE = sa.select(_links.c.token_hash).where(
    _links.c.used_at.is_(None), _links.c.expires_at > sa.bindparam("now")
)


@dataclass(frozen=True, slots=True)
class LoginLink:
    """A link that was mailed. `next_path` is where its reader wanted to go."""

    email: str
    next_path: str
    expires_at: datetime
    used_at: datetime | None

    def works(self, now: datetime) -> bool:
        return self.used_at is None and now < self.expires_at


def new_secret() -> str:
    """Return 256 bits of chance, as they stand in a link or a cookie."""
    return secrets.token_urlsafe(32)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def record_attempt(
    connection: sa.Connection, email: str, client_address: str, now: datetime
) -> None:
    """Record that somebody asked for a link, and forget attempts that count no more."""
    connection.execute(_attempts.delete().where(_attempts.c.at < now - KEPT))
    connection.execute(
        _attempts.insert().values(email=email, client_address=client_address, at=now)
    )


def count_attempts(connection: sa.Connection, client_address: str, since: datetime) -> int:
    """Return how often links were asked for from an address of the network since a time."""
    query = sa.select(sa.func.count()).where(
        _attempts.c.at >= since, _attempts.c.client_address == client_address
    )
    return connection.scalar(query) or 0


def count_links(connection: sa.Connection, email: str, since: datetime) -> int:
    """Return how many links were mailed to an address since a time. What was asked for in vain does not
    count: whoever goes on asking for somebody else must not keep them out."""
    query = sa.select(sa.func.count()).where(_links.c.asked_at >= since, _links.c.email == email)
    return connection.scalar(query) or 0


def record_link(
    connection: sa.Connection,
    secret: str,
    email: str,
    next_path: str,
    now: datetime,
    expires_at: datetime,
) -> None:
    """Record a link that is about to be mailed, and forget those long past."""
    connection.execute(_links.delete().where(_links.c.expires_at < now - KEPT))
    connection.execute(
        _links.insert().values(
            token_hash=_hash(secret),
            email=email,
            next_path=next_path,
            asked_at=now,
            expires_at=expires_at,
        )
    )


def find_link(connection: sa.Connection, secret: str) -> LoginLink | None:
    row = connection.execute(
        sa.select(_links).where(_links.c.token_hash == _hash(secret))
    ).one_or_none()
    if row is None:
        return None
    return LoginLink(row.email, row.next_path, row.expires_at, row.used_at)


def find_live(connection: sa.Connection, now: datetime) -> Callable[[str], bool] | None:
    """Return what tells whether a word is the secret of a link that still logs somebody in; None when
    there is no such link."""
    live = frozenset(connection.scalars(LIVE, {"now": now}))
    return (lambda word: _hash(word) in live) if live else None


def use_link(connection: sa.Connection, secret: str, now: datetime) -> bool:
    """Use a link up; False when it was used before or is too old. Of two at once, one gets True."""
    used = connection.execute(
        _links.update()
        .where(
            _links.c.token_hash == _hash(secret),
            _links.c.used_at.is_(None),
            _links.c.expires_at > now,
        )
        .values(used_at=now)
    )
    return used.rowcount == 1


def begin(
    connection: sa.Connection,
    secret: str,
    email: str,
    now: datetime,
    expires_at: datetime,
    *,
    verified_at: datetime | None = None,
    offered_secret: str | None = None,
) -> None:
    """Record a session, and forget those long past. One with an `offered_secret` waits for its second
    factor; `verified_at` is when that was right."""
    connection.execute(_sessions.delete().where(_sessions.c.expires_at < now - KEPT))
    connection.execute(
        _sessions.insert().values(
            session_hash=_hash(secret),
            email=email,
            began_at=now,
            expires_at=expires_at,
            verified_at=verified_at,
            offered_secret=offered_secret,
        )
    )


def find_email(
    connection: sa.Connection, secret: str, now: datetime, *, needs_factor: bool = False
) -> str | None:
    """Return whose session this is; None when it has ended, is too old, never was, waits for its second
    factor, or `needs_factor` and has not passed it."""
    # One that waits does so for ever: somebody may switch second factors off meanwhile.
    query = sa.select(_sessions.c.email).where(
        *_is_live(secret, now), _sessions.c.offered_secret.is_(None)
    )
    if needs_factor:
        query = query.where(_sessions.c.verified_at.is_not(None))
    email: str | None = connection.scalar(query)
    return email


def find_half(connection: sa.Connection, secret: str, now: datetime) -> tuple[str, str] | None:
    """Return whose session waits for its second factor, and the secret it offers; else None."""
    row = connection.execute(
        sa.select(_sessions.c.email, _sessions.c.offered_secret).where(
            *_is_live(secret, now), _sessions.c.offered_secret.is_not(None)
        )
    ).one_or_none()
    return (row.email, row.offered_secret) if row else None


def _is_live(secret: str, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _sessions.c.session_hash == _hash(secret),
        _sessions.c.ended_at.is_(None),
        _sessions.c.expires_at > now,
    )


def end(connection: sa.Connection, secret: str, now: datetime) -> None:
    """End a session; a second time it changes nothing."""
    connection.execute(
        _sessions.update()
        .where(_sessions.c.session_hash == _hash(secret), _sessions.c.ended_at.is_(None))
        .values(ended_at=now)
    )


def end_all_of(connection: sa.Connection, email: str, now: datetime) -> int:
    """End every session of an address; return how many there were."""
    ended = connection.execute(
        _sessions.update()
        .where(
            _sessions.c.email == email, _sessions.c.ended_at.is_(None), _sessions.c.expires_at > now
        )
        .values(ended_at=now)
    )
    return ended.rowcount


# --- second factors -------------------------------------------------------------------------------


ENROLLED = "second factor enrolled"
REFUSED = "second factor refused"
RESET = "second factor reset"

WRONG_CODES = 5
COUNTED_FOR = timedelta(minutes=15)

_factors = schema.second_factors


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """`last_step` is the time step of the last code that was used (RFC 6238 section 5.2)."""

    encrypted_secret: str
    last_step: int


def find(connection: sa.Connection, email: str, *, for_update: bool = False) -> SecondFactor | None:
    """Return the secret that somebody has enrolled, or None. With `for_update` its row stays locked, so
    that codes of one person are checked one after the other."""
    query = sa.select(_factors).where(_factors.c.email == email)
    if for_update:
        query = query.with_for_update()
    row = connection.execute(query).one_or_none()
    return SecondFactor(row.encrypted_secret, row.last_step) if row else None


def enrol(
    connection: sa.Connection, email: str, encrypted_secret: str, step: int, now: datetime
) -> bool:
    """Record a secret whose code for `step` was typed; False if the person has one by now."""
    values = {
        "email": email,
        "encrypted_secret": encrypted_secret,
        "last_step": step,
        "enrolled_at": now,
    }
    try:
        with connection.begin_nested():
            connection.execute(_factors.insert().values(values))
    except sa.exc.IntegrityError:
        return False
    audit.record(connection, now, email, ENROLLED, email)
    return True


def use_step(connection: sa.Connection, email: str, step: int) -> bool:
    """Use the code of a time step up; False if it, or a later one, was used before."""
    used = connection.execute(
        _factors.update()
        .where(_factors.c.email == email, _factors.c.last_step < step)
        .values(last_step=step)
    )
    return used.rowcount == 1


def refuse(connection: sa.Connection, email: str, now: datetime) -> None:
    """Record that a code was wrong."""
    audit.record(connection, now, email, REFUSED, email)


def is_locked(connection: sa.Connection, email: str, now: datetime) -> bool:
    """Whether somebody has typed so many wrong codes that no further one is checked for now."""
    table = schema.audit
    wrong = sa.select(sa.func.count()).where(
        table.c.subject == email, table.c.action == REFUSED, table.c.at > now - COUNTED_FOR
    )
    return (connection.scalar(wrong) or 0) >= WRONG_CODES


def reset(connection: sa.Connection, email: str, actor: str, now: datetime) -> bool:
    """Remove somebody's secret and end their sessions; False if they had no secret."""
    removed = connection.execute(_factors.delete().where(_factors.c.email == email)).rowcount == 1
    ended = end_all_of(connection, email, now)
    if removed or ended:
        audit.record(connection, now, actor, RESET, email, {"sessions_ended": ended})
    return removed
