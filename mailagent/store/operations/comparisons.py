"""Comparisons as rows: what another configuration would have done about answered mails, by the backtest or the
shadow. They hold what it would have written, so they are deleted with the texts of their conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import from_row, insert_once, update_rows

_rows = schema.comparisons


class Source(StrEnum):
    BACKTEST = "backtest"
    SHADOW = "shadow"


class Differs(StrEnum):
    """What differs: the acts, only the facts that the reply names, or nothing; UNKNOWN: there is no new
    answer."""

    ACTS = "acts"
    FACTS = "facts"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Side:
    """What one agent did. `acts`: its calls that change something, in words. `parts`: the parts of its reply,
    as ids of phrases and facts, or words."""

    acts: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two answers. `mail_id`: the newest of the mails that were answered together. `draft`:
    what a person did with the old answer, `edited` or `discarded`; None for neither. `error`: why there is no
    new answer."""

    source: Source
    mail_id: str
    conversation_id: str
    at: datetime
    model: str
    differs: Differs
    draft: str | None
    past: Side
    now: Side
    error: str
    tokens: int
    cost_micro_usd: int
    milliseconds: int


def record(connection: sa.Connection, found: Comparison) -> bool:
    """Record a comparison, unless its source has one about the same mail; return whether it is new."""
    return insert_once(connection, _rows, _values(found), "source", "mail_id")


def update(connection: sa.Connection, found: Comparison) -> None:
    """Replace a recorded comparison. If it was deleted meanwhile, do nothing."""
    same = (_rows.c.source == found.source.value, _rows.c.mail_id == found.mail_id)
    update_rows(connection, _rows, *same, **_values(found))


def _values(found: Comparison) -> dict[str, Any]:
    sides = {"past": asdict(found.past), "now": asdict(found.now)}
    return {each.name: getattr(found, each.name) for each in fields(found)} | sides


def delete_of_conversations(connection: sa.Connection, conversation_ids: Collection[str]) -> None:
    connection.execute(_rows.delete().where(_rows.c.conversation_id.in_(conversation_ids)))


def delete_before(connection: sa.Connection, before: datetime) -> None:
    connection.execute(_rows.delete().where(_rows.c.at < before))


def delete_of_source(connection: sa.Connection, source: Source) -> None:
    connection.execute(_rows.delete().where(_rows.c.source == source.value))


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over some comparisons. `by_people`: how many of the old answers people edited or discarded."""

    counts: Counter[str]
    by_people: int
    cost_micro_usd: int
    models: tuple[str, ...]


def sum_up(connection: sa.Connection, source: Source, since: datetime) -> Sums:
    """Return the sums over all comparisons of a source since a time."""
    cost, drafts = sa.func.sum(_rows.c.cost_micro_usd), sa.func.count(_rows.c.draft)
    query = sa.select(_rows.c.differs, _rows.c.model, sa.func.count(), drafts, cost).where(
        _rows.c.source == source.value, _rows.c.at >= since
    )
    counts: Counter[str] = Counter()
    by_people = cost_micro_usd = 0
    models = set()
    for differs, model, count, edited, spent in connection.execute(
        query.group_by(_rows.c.differs, _rows.c.model)
    ):
        counts[differs] += count
        by_people += edited
        cost_micro_usd += int(spent)
        models.add(model)
    return Sums(counts, by_people, cost_micro_usd, tuple(sorted(models)))


def list_of(
    connection: sa.Connection, source: Source, since: datetime, until: datetime | None = None
) -> list[Comparison]:
    """Return the comparisons since a time."""
    where = [] if until is None else [_rows.c.at < until]
    return _list(connection, source, since, where)


def list_different(
    connection: sa.Connection, source: Source, since: datetime, most: int
) -> list[Comparison]:
    """Return at most `most` comparisons since a time in which something differs, in the order of `list_of`."""
    return _list(connection, source, since, [_rows.c.differs != Differs.NOTHING.value], most)


def _list(
    connection: sa.Connection,
    source: Source,
    since: datetime,
    where: list[sa.ColumnElement[bool]],
    most: int | None = None,
) -> list[Comparison]:
    """Return comparisons, the most interesting first: different acts before different facts, answers that
    people edited or discarded before others, newer before older ones."""
    where = [_rows.c.source == source.value, _rows.c.at >= since, *where]
    rank = sa.case(
        {each.value: number for number, each in enumerate(Differs)}, value=_rows.c.differs
    )
    by_people = sa.case((_rows.c.draft.is_not(None), 0), else_=1)
    query = (
        sa.select(_rows).where(*where).order_by(rank, by_people, _rows.c.at.desc(), _rows.c.mail_id)
    ).limit(most)
    return [
        from_row(
            Comparison,
            row,
            source=Source(row.source),
            differs=Differs(row.differs),
            past=_side(row.past),
            now=_side(row.now),
        )
        for row in connection.execute(query)
    ]


def list_sent_instead(connection: sa.Connection, mail_ids: Collection[str]) -> dict[str, str]:
    """Return the text that people sent instead of the agent's draft, by the id of the mail that it answers."""
    drafts, inbound, sent = schema.drafts, schema.inbound_mails, schema.outbound_mails
    query = (
        sa.select(inbound.c.mail_id, sent.c.text)
        .join(drafts, drafts.c.draft_id == inbound.c.draft_id)
        .join(sent, sent.c.outbound_id == drafts.c.outbound_id)
        .where(drafts.c.state == "edited", inbound.c.mail_id.in_(mail_ids))
    )
    return {row.mail_id: row.text for row in connection.execute(query)}


def _side(plain: dict[str, Sequence[str]]) -> Side:
    return Side(tuple(plain["acts"]), tuple(plain["parts"]))


def list_compared(connection: sa.Connection, source: Source, mail_ids: Collection[str]) -> set[str]:
    """Return those of these mails about which the source has a comparison."""
    query = sa.select(_rows.c.mail_id).where(
        _rows.c.source == source.value, _rows.c.mail_id.in_(mail_ids)
    )
    return set(connection.scalars(query))


def spent_since(connection: sa.Connection, source: Source, since: datetime) -> int:
    """Return the cost of the comparisons since a time, in millionths of a US dollar."""
    cost = sa.func.coalesce(sa.func.sum(_rows.c.cost_micro_usd), 0)
    query = sa.select(cost).where(_rows.c.source == source.value, _rows.c.at >= since)
    return int(connection.scalar(query) or 0)
