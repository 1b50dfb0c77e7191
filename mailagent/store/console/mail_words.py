"""Words in mail: how they are found among a million without reading them all.

PostgreSQL has an index of words, without times. A word that few mails have is looked up there, and what it
finds is put in order; a word that many have is met soon by whoever reads the newest mails. SQLite has no
such index: there only the newest mails are read, and a part of a word is found, too.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCONFIG

from mailagent.domain.operations.search_words import Term, parse_search, write_search
from mailagent.store import schema
from mailagent.store.pagination import Source

_mails = schema.inbound_mails

SQLITE_READS = 20_000  # the newest mails that a search for words looks through

# Up to this share of all mail the index is faster. Looking at one mail's words costs some thirty times
# of what fetching one costs, so on a million mails both take a tenth of a second here.
_COMMON_SHARE = 0.04


def source(
    connection: sa.Connection, words: str, state: str | None
) -> Source[tuple[Any, str]]:  # fmt: skip
    """Return the mails that have all the words, of one status or of all: when they came, and their ids."""
    if connection.dialect.name != "postgresql":
        return _source(_mails, _is_among_newest(words), state)
    if _share(connection, words) >= _COMMON_SHARE:
        return _source(_mails, _has(words), state)
    # The planner takes the words of a found mail for as dear as those of one that is only read.
    connection.execute(sa.select(_set("enable_seqscan", "off"), _set("work_mem", "32MB")))
    found = sa.select(_mails.c.mail_id, _mails.c.received_at, _mails.c.status).where(_has(words))
    return _source(found.cte("found").prefix_with("MATERIALIZED"), sa.true(), state)


def _set(name: str, value: str) -> sa.ColumnElement[Any]:
    return sa.func.set_config(name, value, sa.true())  # for this transaction


def _source(
    rows: sa.FromClause, where: sa.ColumnElement[bool], state: str | None
) -> Source[tuple[Any, str]]:
    query: sa.Select[Any] = sa.select(rows.c.received_at, rows.c.mail_id).where(where)
    if state is not None:
        query = query.where(rows.c.status == state)
    return Source(
        query, rows.c.received_at, rows.c.mail_id, lambda row: (row.received_at, row.mail_id)
    )


def _has(words: str) -> sa.ColumnElement[bool]:
    simple = sa.literal_column("'simple'", REGCONFIG)
    # To the letter as ix_inbound_mails_words in migration 0001 has it.
    text = sa.literal_column("subject || ' ' || left(new_text, 4000)", sa.Text)
    question = sa.func.websearch_to_tsquery(simple, write_search(words))
    return sa.func.to_tsvector(simple, text).op("@@")(question)


def _share(connection: sa.Connection, words: str) -> float:
    """Return which share of all mail has these words, as the planner guesses by its statistics."""
    found = sa.select(sa.literal(1)).select_from(_mails).where(_has(words))
    compiled = found.compile(
        dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
    )
    guess = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {compiled}", compiled.params)
    rows: float = guess.scalar_one()[0]["Plan"]["Plan Rows"]
    total = connection.scalar(
        sa.text("SELECT reltuples FROM pg_class WHERE oid = 'inbound_mails'::regclass")
    )
    return rows / max(float(total or 0), 1)


def _is_among_newest(words: str) -> sa.ColumnElement[bool]:
    newest = (
        sa.select(_mails.c.mail_id).order_by(_mails.c.received_at.desc()).limit(SQLITE_READS)
    )  # fmt: skip
    text = sa.func.replace(_mails.c.new_text, "\n", " ", type_=sa.Text)  # phrases go over lines
    whole = _mails.c.subject.concat(" ").concat(text)
    holds = [
        sa.and_(*(_holds(whole, term) for term in alternative))
        for alternative in parse_search(words)
    ]
    return sa.and_(_mails.c.mail_id.in_(newest), sa.or_(sa.false(), *holds))


def _holds(whole: sa.ColumnElement[str], term: Term) -> sa.ColumnElement[bool]:
    found = whole.icontains(term.text, autoescape=True)
    return found if term.wanted else ~found
