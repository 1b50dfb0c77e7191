"""Reads from rows answered mail as the agent saw it, and what the agent did. Changes no row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from mailagent.agent.reply.composition import CompositionProblem, FactName, parse
from mailagent.domain.mail.draft import DraftState
from mailagent.domain.mail.message import Identity
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.context import read_case
from mailagent.workflows.tools import registry


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, and what the tool answered."""

    name: str
    arguments: Mapping[str, Any]
    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """What the agent did about a mail: its calls that change something, in words, and the facts
    that it named. `parts`: the whole reply, by ids of phrases and facts."""

    acts: tuple[str, ...]
    facts: tuple[str, ...]
    parts: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Past:
    """Mails that were answered together. `calls`: what was looked up and done then, on record. `draft`: what a
    person did with the answer, if it was edited or discarded."""

    batch: Batch
    at: datetime
    case: dict[str, Any]
    calls: tuple[Call, ...]
    decided: Decided
    draft: str | None = None


_BY_PEOPLE = (DraftState.EDITED.value, DraftState.DISCARDED.value)


def list_past(connection: sa.Connection, last: int) -> Iterator[Past]:
    """Yield what is still on record of the last mails that the agent answered, the newest first."""
    for mails in list_answered(connection, last):
        past = read_past(connection, mails)
        if past is not None:
            yield past


def find_past(connection: sa.Connection, mail_id: str) -> Past | None:
    """Return what is still on record of the mails that were answered together with this one, if it is the
    newest of them."""
    inbound = schema.inbound_mails.c
    conversation = sa.select(inbound.conversation_id).where(inbound.mail_id == mail_id)
    answered = _grouped(
        connection, _ANSWERED.where(inbound.conversation_id == conversation.scalar_subquery())
    )
    return next(
        (read_past(connection, each) for each in answered if each[-1].mail_id == mail_id), None
    )


def list_answered(
    connection: sa.Connection, last: int, since: datetime | None = None
) -> list[list[Row]]:
    """Return the last mails with a reply of the agent, or with one that a person discarded: those together that
    have the same, the newest reply first and its newest mail last. `since`: only mails that came since then."""
    inbound = schema.inbound_mails.c
    query = _ANSWERED if since is None else _ANSWERED.where(inbound.received_at >= since)
    return _grouped(
        connection, query.order_by(inbound.received_at.desc(), inbound.mail_id).limit(last)
    )


def _grouped(connection: sa.Connection, query: sa.Select[Any]) -> list[list[Row]]:
    rows = sorted(connection.execute(query), key=lambda row: (row.until, row.answer))
    return [
        sorted(mails, key=lambda row: row.received_at)
        for _, mails in groupby(reversed(rows), key=lambda row: row.answer)
    ]


def _select_answered() -> sa.Select[Any]:
    inbound, outbound = schema.inbound_mails.c, schema.outbound_mails.c
    drafts = schema.drafts.c
    return (
        sa.select(
            inbound.mail_id,
            inbound.conversation_id,
            inbound.identity,
            inbound.received_at,
            sa.func.coalesce(inbound.draft_id, inbound.answered_by).label("answer"),
            sa.func.coalesce(drafts.created_at, outbound.created_at).label("until"),
            sa.case((drafts.state.in_(_BY_PEOPLE), drafts.state)).label("draft"),
        )
        .select_from(schema.inbound_mails)
        .outerjoin(schema.outbound_mails, outbound.outbound_id == inbound.answered_by)
        .outerjoin(schema.drafts, drafts.draft_id == inbound.draft_id)
        .where(
            inbound.kind == "customer",
            sa.or_(outbound.purpose == "reply", drafts.state == DraftState.DISCARDED.value),
        )
    )


_ANSWERED = _select_answered()


def read_past(connection: sa.Connection, mails: Sequence[Row]) -> Past | None:
    """Return what is on record of mails that one mail answered; None if too little is."""
    first, newest = mails[0], mails[-1]
    texts = _texts(connection, newest.conversation_id, newest.received_at, newest.until)
    calls = tuple(_calls([item for text in texts for item in text.get("items") or ()]))
    if not texts:
        return None
    batch = Batch(
        conversation_id=newest.conversation_id,
        mail_ids=[mail.mail_id for mail in mails],
        verified=Identity(first.identity).proven,
        task="answer",
        taken_at=newest.received_at.isoformat(),
    )
    ends = [text for text in texts if "text" in text or "summary" in text]
    last = ends[-1] if ends else {}
    acts = [
        tell_act(call.name, call.arguments, call.output) for call in calls if changes(call.name)
    ]
    decided = decide_by(acts, str(last.get("text", "")), "summary" in last)
    case = read_case(connection, batch).item
    return Past(batch, newest.received_at, case, calls, decided, newest.draft)


def _texts(
    connection: sa.Connection, conversation_id: str, since: datetime, until: datetime
) -> list[dict[str, Any]]:
    """Return the texts of the run that answered, and of its forks, but not of runs that put the mail off."""
    words, calls = schema.step_texts.c, schema.model_calls.c
    query = sa.select(calls.at, calls.run_id).order_by(calls.at, calls.call_id)
    query = query.where(calls.conversation_id == conversation_id, calls.at.between(since, until))
    made = [(at, str(run_id).partition("-fork-")[0]) for at, run_id in connection.execute(query)]
    began = min((at for at, origin in made if origin == made[-1][1]), default=since)
    texts = sa.select(words.words).order_by(words.at, words.text_id)
    texts = texts.where(words.conversation_id == conversation_id, words.at.between(began, until))
    return list(connection.scalars(texts))


def _calls(items: Sequence[Mapping[str, Any]]) -> Iterator[Call]:
    asked = {item["call_id"]: item for item in items if item.get("type") == "function_call"}
    for item in items:
        if item.get("type") == "function_call_output" and item["call_id"] in asked:
            call = asked[item["call_id"]]
            yield Call(call["name"], _object(call["arguments"]), _object(item["output"]))


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# --- decisions --------------------------------------------------------------------------------------


def changes(name: str) -> bool:
    """Return whether a tool changes something, by its name."""
    return name in registry.changing()


def tell_act(name: str, arguments: Mapping[str, Any], output: Mapping[str, Any]) -> str:
    """Return a call and its outcome in a line, the same for the same decision."""
    items = sorted(
        f"{each.get('item_id')}:{each.get('quantity') or 'all'}"
        for each in arguments.get("items", ())
    )
    outcome = [output.get(part) for part in ("outcome", "error", "reason") if output.get(part)]
    percent = arguments.get("percent")
    words = [name, arguments.get("order_id"), *items, percent and f"{percent}%", "->", *outcome]
    return " ".join(str(word) for word in words if word)


def decide_by(acts: Sequence[str], reply: str, is_handed_over: bool) -> Decided:
    """Return the decision of an agent that ended with this reply, or handed over."""
    if is_handed_over:
        return Decided((*acts, "hand_over"), ())
    try:
        parts = parse(reply).parts
    except CompositionProblem:
        return Decided(tuple(acts), ("no composition",))
    facts = dict.fromkeys(part.fact for part in parts if isinstance(part, FactName))
    said = tuple(next(iter(part.model_dump().values())) for part in parts)
    return Decided(tuple(acts), tuple(facts), said)
