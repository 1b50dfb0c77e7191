"""Logins of the shop's people: mailed links, sessions, attempts and second factors.

We store only hashes of secrets. `store.privacy.retention` deletes old rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from mailagent.store import audit, schema
from mailagent.store.database import Row, count_rows, insert_once, update_rows

_links, _attempts, _sessions = schema.login_links, schema.login_attempts, schema.sessions

# The hashes of links that can still log a person in; `now` is a bound parameter.
LIVE = sa.select(_links.c.token_hash).where(
    _links.c.used_at.is_(None), _links.c.expires_at > sa.bindparam("now")
)


def new_secret() -> str:
    """Return a secret of 256 random bits, in base64, for a link or a cookie."""
    return secrets.token_urlsafe(32)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def record_attempt(
    connection: sa.Connection, email: str, client_address: str, now: datetime
) -> None:
    """Record that a person asked for a link."""
    values = {"email": email, "client_address": client_address, "at": now}
    connection.execute(_attempts.insert().values(values))


def count_attempts(connection: sa.Connection, client_address: str, since: datetime) -> int:
    """Return how often a client asked for links since a time."""
    mine = _attempts.c.client_address == client_address
    return count_rows(connection, _attempts.c.at >= since, mine)


def count_links(connection: sa.Connection, email: str, since: datetime) -> int:
    """Return how many links we mailed to an address since a time. Refused requests do not count, else a
    stranger could lock the address out."""
    return count_rows(connection, _links.c.asked_at >= since, _links.c.email == email)


def record_link(
    connection: sa.Connection,
    secret: str,
    email: str,
    next_path: str,
    now: datetime,
    expires_at: datetime,
) -> None:
    """Record a link that is about to be mailed. `next_path`: the page that the person asked for before the
    login."""
    values = {
        "token_hash": _hash(secret),
        "email": email,
        "next_path": next_path,
        "asked_at": now,
        "expires_at": expires_at,
    }
    connection.execute(_links.insert().values(values))


def find_link(connection: sa.Connection, secret: str, now: datetime) -> Row | None:
    """Return the link with this secret; None if it was used, has expired or never existed."""
    query = sa.select(_links).where(*_works(secret, now))
    return connection.execute(query).one_or_none()


def use_link(connection: sa.Connection, secret: str, now: datetime) -> bool:
    """Use a link up; return False if it does not work any more. Of two concurrent requests, one gets True."""
    return update_rows(connection, _links, *_works(secret, now), used_at=now) == 1


def _works(secret: str, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _links.c.token_hash == _hash(secret),
        _links.c.used_at.is_(None),
        _links.c.expires_at > now,
    )


def find_live(connection: sa.Connection, now: datetime) -> Callable[[str], bool] | None:
    """Return a function that says whether a text is the secret of a link that still works; None if no link
    works."""
    live = frozenset(connection.scalars(LIVE, {"now": now}))
    return (lambda word: _hash(word) in live) if live else None


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
    """Record a session. `offered_secret`: the encrypted TOTP secret that its page offers to enrol; with it, the
    session waits for the second factor. `verified_at`: when the second factor was right; None if it was not
    asked for."""
    values = {
        "session_hash": _hash(secret),
        "email": email,
        "began_at": now,
        "expires_at": expires_at,
        "verified_at": verified_at,
        "offered_secret": offered_secret,
    }
    connection.execute(_sessions.insert().values(values))


def find_email(
    connection: sa.Connection, secret: str, now: datetime, *, needs_factor: bool = False
) -> str | None:
    """Return the mail address of a session's person; None if the session has ended or waits for its second
    factor. `needs_factor`: None also if it has no second factor."""
    row = _find_session(connection, secret, now)
    # A session that waits for its second factor never gets access, even if the shop switches second factors
    # off.
    if row is None or row.offered_secret is not None:
        return None
    return None if needs_factor and row.verified_at is None else str(row.email)


def find_half(connection: sa.Connection, secret: str, now: datetime) -> tuple[str, str] | None:
    """Return the mail address and the offered secret of a session that waits for its second factor; else
    None."""
    row = _find_session(connection, secret, now)
    return None if row is None or row.offered_secret is None else (row.email, row.offered_secret)


def _find_session(connection: sa.Connection, secret: str, now: datetime) -> Row | None:
    query = sa.select(_sessions).where(_sessions.c.session_hash == _hash(secret), *_where_live(now))
    return connection.execute(query).one_or_none()


def _where_live(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return _sessions.c.ended_at.is_(None), _sessions.c.expires_at > now


def end(connection: sa.Connection, secret: str, now: datetime) -> None:
    """End a session. A second call changes nothing."""
    mine = _sessions.c.session_hash == _hash(secret)
    update_rows(connection, _sessions, mine, *_where_live(now), ended_at=now)


def _end_all_of(connection: sa.Connection, email: str, now: datetime) -> int:
    theirs = _sessions.c.email == email
    return update_rows(connection, _sessions, theirs, *_where_live(now), ended_at=now)


# --- second factors -------------------------------------------------------------------------------


ENROLLED: Final = "second factor enrolled"
REFUSED: Final = "second factor refused"
RESET: Final = "second factor reset"

WRONG_CODES = 5
COUNTED_FOR = timedelta(minutes=15)

_factors = schema.second_factors


def find_secret(connection: sa.Connection, email: str, *, for_update: bool = False) -> str | None:
    """Return the encrypted TOTP secret that a person has enrolled, or None. `for_update`: lock its row, so that
    two codes of one person are not checked at once."""
    query = sa.select(_factors.c.encrypted_secret).where(_factors.c.email == email)
    secret: str | None = connection.scalar(query.with_for_update() if for_update else query)
    return secret


def enrol(
    connection: sa.Connection, email: str, encrypted_secret: str, step: int, now: datetime
) -> bool:
    """Record a person's TOTP secret, after they typed its code for the time step `step`; return False if the
    person has a secret already."""
    values = {
        "email": email,
        "encrypted_secret": encrypted_secret,
        "last_step": step,
        "enrolled_at": now,
    }
    if not insert_once(connection, _factors, values, "email"):
        return False
    audit.record(connection, now, email, ENROLLED, email)
    return True


def use_step(connection: sa.Connection, email: str, step: int) -> bool:
    """Use up the code of a time step (RFC 6238 section 5.2); return False if this code or a later one was
    used."""
    unused = (_factors.c.email == email, _factors.c.last_step < step)
    return update_rows(connection, _factors, *unused, last_step=step) == 1


def is_locked(connection: sa.Connection, email: str, now: datetime) -> bool:
    """Return whether a person has typed so many wrong codes that we check none for some time."""
    act = schema.audit.c
    wrong = (act.subject == email, act.action == REFUSED, act.at > now - COUNTED_FOR)
    return count_rows(connection, *wrong) >= WRONG_CODES


def reset(connection: sa.Connection, email: str, actor: str, now: datetime) -> bool:
    """Remove a person's secret and end their sessions; return False if they had no secret."""
    removed = connection.execute(_factors.delete().where(_factors.c.email == email)).rowcount == 1
    ended = _end_all_of(connection, email, now)
    if removed or ended:
        audit.record(connection, now, actor, RESET, email, {"sessions_ended": ended})
    return removed
