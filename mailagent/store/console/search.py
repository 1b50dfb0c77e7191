"""The console's search. An id leads to its page; any other words, to lists of conversations, mails and refunds.

On PostgreSQL no query may take longer than `MOST_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCONFIG

from mailagent.domain.text import Term, parse_search, write_search
from mailagent.store import schema
from mailagent.store.console.inbox import Entry, read_entry, select_entries, select_refunds
from mailagent.store.database import Row, in_literals
from mailagent.store.errors import is_cancelled
from mailagent.store.mail import assignments
from mailagent.store.pagination import Part, Source, Window, read_part
from mailagent.store.refunds.orders import spellings

_conversations, _mails, _refunds = schema.conversations, schema.inbound_mails, schema.refunds

MOST_SECONDS = 2

_EXCERPT = 300  # characters of a mail that a line shows
_LAST = "\U0010ffff"


class Kind(StrEnum):
    """The kinds of rows that can be searched."""

    CONVERSATIONS = "conversations"
    MAILS = "mails"
    REFUNDS = "refunds"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to search for. `since` and `until` bound the time by which the list is ordered. `state`: one of
    this kind's states."""

    words: str
    kind: Kind
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class TooMuchWork(Exception):
    """The query took too long and was cancelled. With another word or a date it may be faster."""


def find(connection: sa.Connection, wanted: Wanted, window: Window) -> Part[Entry]:
    """Return one page of what was found. Raises TooMuchWork."""
    with bounded(connection):
        sources = [_between(each, wanted) for each in _SOURCES[wanted.kind](connection, wanted)]
        part = read_part(connection, sources, window, lambda entry: entry.cursor)
    return _with_mails(connection, part) if wanted.kind is Kind.MAILS else part


@contextmanager
def bounded(connection: sa.Connection, most_seconds: float = MOST_SECONDS) -> Iterator[None]:
    """On PostgreSQL, cancel each query that takes longer than `most_seconds`. Raises TooMuchWork."""
    if connection.dialect.name != "postgresql":
        yield
        return
    milliseconds = round(most_seconds * 1000)
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
    try:
        yield
    except sa.exc.OperationalError as error:
        if is_cancelled(error):
            raise TooMuchWork from error
        raise


def _between(source: Source[Entry], wanted: Wanted) -> Source[Entry]:
    query = source.query
    if wanted.since is not None:
        query = query.where(source.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(source.at < wanted.until)
    return Source(query, source.at, source.row_id, source.read)


# --- addresses ------------------------------------------------------------------------------------


def _has_address(
    connection: sa.Connection, column: sa.ColumnElement[str], words: str
) -> sa.ColumnElement[bool]:
    """Match the beginning of an address, or the whole domain if `words` begins with an @."""
    words = words.casefold()
    postgresql = connection.dialect.name == "postgresql"
    if words.startswith("@"):
        if postgresql:
            return sa.func.split_part(column, "@", sa.literal_column("2")) == words[1:]
        return sa.func.substr(column, sa.func.instr(column, "@")) == words
    if postgresql:  # compare bytes, as the index does, not by the server's locale
        return sa.and_(column.op("~>=~")(words), column.op("~<~")(words + _LAST))
    return sa.and_(column >= words, column < words + _LAST)


def _conversations_sources(connection: sa.Connection, wanted: Wanted) -> list[Source[Entry]]:
    """Find conversations by the customer's address, and by words of the subject and the customer's name."""
    thread = _conversations.c
    query = select_entries(
        "conversation",
        thread.conversation_id,
        thread.last_mail_at,
        who=thread.customer_email,
        what=thread.subject,
        state=thread.status,
        conversation_id=thread.conversation_id,
        owner=thread.owner_email,
    )
    if wanted.state:
        query = query.where(in_literals(thread.status, wanted.state))
    queries = [query]
    if wanted.words:
        by_address = _has_address(connection, thread.customer_email, wanted.words)
        queries = [query.where(by_address)]
        if "@" not in wanted.words:
            found = _find_by_words(connection, CONVERSATION, wanted.words)
            queries.append(query.where(found, ~by_address))
    at, row_id = thread.last_mail_at, thread.conversation_id
    return [Source(each, at, row_id, read_entry) for each in queries]


# --- refunds --------------------------------------------------------------------------------------


def _refunds_sources(connection: sa.Connection, wanted: Wanted) -> list[Source[Entry]]:
    customer = _conversations.c.customer_email
    query = select_refunds()
    if "@" in wanted.words:
        query = query.where(_has_address(connection, customer, wanted.words))
    elif wanted.words:
        query = query.where(_refunds.c.order_id.in_(spellings(wanted.words)))
    if wanted.state:
        query = query.where(in_literals(_refunds.c.status, wanted.state))
    return [Source(query, _refunds.c.requested_at, _refunds.c.refund_id, read_entry)]


def find_order(connection: sa.Connection, words: str) -> Row | None:
    """Return the order with the typed id, with `has_refunds`; None if there is none. See `spellings`."""
    orders, typed = schema.orders.c, spellings(words)
    has_refunds = sa.exists().where(_refunds.c.order_id == orders.order_id).label("has_refunds")
    query = sa.select(orders.order_id, orders.customer_email, orders.status, has_refunds)
    rows = connection.execute(query.where(orders.order_id.in_(typed))).all()
    return min(rows, key=lambda row: typed.index(row.order_id), default=None)


# --- mail -----------------------------------------------------------------------------------------


def _mails_sources(connection: sa.Connection, wanted: Wanted) -> list[Source[Entry]]:
    mail, empty = _mails.c, sa.literal("")
    query = select_entries("mail", mail.mail_id, mail.received_at, who=empty, what=empty)
    if wanted.words:
        query = query.where(_find_by_words(connection, MAIL, wanted.words))
    if wanted.state:
        query = query.where(in_literals(mail.status, wanted.state))
    return [Source(query, mail.received_at, mail.mail_id, read_entry)]


def _with_mails(connection: sa.Connection, part: Part[Entry]) -> Part[Entry]:
    """Add the texts of the mails on a page. The search itself reads only ids."""
    ids = [entry.row_id for entry in part.rows]
    query: sa.Select[Any] = sa.select(
        _mails.c.mail_id, _mails.c.from_address, _mails.c.subject, assignments.SHOWN_STATUS,
        _mails.c.conversation_id, sa.func.substr(_mails.c.new_text, 1, _EXCERPT).label("excerpt"),
    ).where(_mails.c.mail_id.in_(ids))  # fmt: skip
    found = {row.mail_id: row for row in connection.execute(query)}
    rows = []
    for entry in part.rows:
        mail = found[entry.row_id]
        what = f"{mail.subject}: {' '.join(mail.excerpt.split())}"
        thread = mail.conversation_id
        rows.append(
            replace(
                entry, who=mail.from_address, what=what, state=mail.status, conversation_id=thread
            )
        )
    return replace(part, rows=tuple(rows))


_SOURCES: Mapping[Kind, Callable[[sa.Connection, Wanted], list[Source[Entry]]]] = {
    Kind.CONVERSATIONS: _conversations_sources,
    Kind.MAILS: _mails_sources,
    Kind.REFUNDS: _refunds_sources,
}


# --- ids ------------------------------------------------------------------------------------------

# By the prefix of an id: the column with the id, and the column with the id of the page that shows the row.
_PLACES: Mapping[str, tuple[sa.Column[Any], sa.Column[Any]]] = {
    "refund": (_refunds.c.refund_id, _refunds.c.refund_id),
    "approval": (schema.approvals.c.approval_id, schema.approvals.c.refund_id),
    "conversation": (_conversations.c.conversation_id, _conversations.c.conversation_id),
    "mail": (_mails.c.mail_id, _mails.c.conversation_id),
    "outbound": (schema.outbound_mails.c.outbound_id, schema.outbound_mails.c.conversation_id),
    "draft": (schema.drafts.c.draft_id, schema.drafts.c.draft_id),
}


def find_place(connection: sa.Connection, words: str) -> tuple[str, str] | None:
    """Return the kind and the id of the page that shows the row with the typed id; None if there is none."""
    kind = words.partition("_")[0]
    if kind not in _PLACES or " " in words:
        return None
    column, leads_to = _PLACES[kind]
    found: str | None = connection.scalar(sa.select(leads_to).where(column == words))
    if found is None:
        return None
    return found.partition("_")[0], found


# --- words ----------------------------------------------------------------------------------------


SQLITE_READS = 20_000  # on SQLite, a search for words reads only so many rows, the newest

# If a larger share of all rows has the words, a scan is faster than the index. Measured with a million mails:
# at this share both take a tenth of a second.
_COMMON_SHARE = 0.04


@dataclass(frozen=True, slots=True)
class _Words:
    """A table that is searched by words. `text` must be exactly the expression of its index in migration
    0001."""

    row_id: sa.Column[str]
    at: sa.Column[datetime]
    columns: tuple[sa.Column[str], ...]
    text: str


MAIL = _Words(
    _mails.c.mail_id,
    _mails.c.received_at,
    (_mails.c.from_name, _mails.c.subject, _mails.c.new_text),
    "from_name || ' ' || subject || ' ' || left(new_text, 4000)",
)
CONVERSATION = _Words(
    _conversations.c.conversation_id,
    _conversations.c.last_mail_at,
    (_conversations.c.customer_name, _conversations.c.subject),
    "customer_name || ' ' || subject",
)


def _find_by_words(connection: sa.Connection, rows: _Words, words: str) -> sa.ColumnElement[bool]:
    if connection.dialect.name != "postgresql":
        return _where_among_newest(rows, words)
    if _share(connection, rows, words) >= _COMMON_SHARE:
        return _has(rows, words)
    # PostgreSQL's planner underestimates the cost of to_tsvector, and would not use its index.
    connection.execute(sa.select(_set("enable_seqscan", "off"), _set("work_mem", "32MB")))
    found = sa.select(rows.row_id).where(_has(rows, words)).cte("found")
    return rows.row_id.in_(sa.select(found.prefix_with("MATERIALIZED").c[rows.row_id.name]))


def _set(name: str, value: str) -> sa.ColumnElement[Any]:
    return sa.func.set_config(name, value, sa.true())  # for this transaction


def _has(rows: _Words, words: str) -> sa.ColumnElement[bool]:
    simple = sa.literal_column("'simple'", REGCONFIG)
    question = sa.func.websearch_to_tsquery(simple, write_search(words))
    text = sa.literal_column(rows.text, sa.Text)
    return sa.func.to_tsvector(simple, text).op("@@")(question)


def _share(connection: sa.Connection, rows: _Words, words: str) -> float:
    """Return the share (0 to 1) of all rows that have these words, as PostgreSQL's planner estimates it."""
    table = rows.row_id.table
    found = sa.select(sa.literal(1)).select_from(table).where(_has(rows, words))
    compiled = found.compile(
        dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
    )
    guess = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {compiled}", compiled.params)
    guessed: float = guess.scalar_one()[0]["Plan"]["Plan Rows"]
    total = connection.scalar(
        sa.text("SELECT reltuples FROM pg_class WHERE oid = CAST(:name AS regclass)"),
        {"name": table.name},
    )
    return guessed / max(float(total or 0), 1)


def _where_among_newest(rows: _Words, words: str) -> sa.ColumnElement[bool]:
    newest = sa.select(rows.row_id).order_by(rows.at.desc()).limit(SQLITE_READS)
    whole: sa.ColumnElement[str] = sa.literal("")
    for column in rows.columns:  # a phrase may continue on the next line
        whole = whole.concat(sa.func.replace(column, "\n", " ", type_=sa.Text)).concat(" ")

    def holds(term: Term) -> sa.ColumnElement[bool]:
        found = whole.icontains(term.text, autoescape=True)
        return found if term.wanted else ~found

    alternatives = [sa.and_(*map(holds, terms)) for terms in parse_search(words)]
    return sa.and_(rows.row_id.in_(newest), sa.or_(sa.false(), *alternatives))
