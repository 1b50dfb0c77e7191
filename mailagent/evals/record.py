"""The record of a sample: read only from the rows that the app wrote. `score` compares it with the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from mailagent import services
from mailagent.agent.reply.composition import Words, parse
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.language import find_language
from mailagent.domain.refunds.policy_rules import decide
from mailagent.domain.refunds.refund import RefundReason
from mailagent.proposals.facts import read_facts
from mailagent.store import schema
from mailagent.store.audit import POLICY
from mailagent.store.refunds import refunds

BY_THE_AGENT = {
    HandOverReason.MODEL_ASKED.value,
    HandOverReason.CUSTOMER_ASKED.value,
    HandOverReason.NOT_IN_KNOWLEDGE.value,
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A mail of ours to a person. `language`: None if we cannot tell it."""

    to: str
    purpose: str
    text: str
    language: str | None


@dataclass(frozen=True, slots=True)
class Paid:
    """A refund, its entries in the ledger, and the sum of its lines. `verdict`: what the policy decides on the
    facts that were recorded with it."""

    order_id: str
    owner: str
    customer: str
    status: str
    minor: int
    ledger_minor: int
    ledger_entries: int
    lines_minor: int
    paid_minor: int
    decided_by: str
    decisions: int
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What a customer got beside refunds: goodwill, an offer, or a request that people do. `percent`: of the
    price. `most`: what the policy allows without a manager."""

    kind: str
    order_id: str
    owner: str
    customer: str
    percent: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """`state`: what was changed, a line each. `wishes`: the customer's words in requests. `told`: the passages
    that were quoted. `named`: the facts and phrases in replies. `calls`: of the model. `error`: why the sample
    broke. `ends_run`: every other would."""

    state: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    mails: tuple[Sent, ...] = ()
    refunds: tuple[Paid, ...] = ()
    given: tuple[Given, ...] = ()
    hand_over: str | None = None
    unanswered: int = 0
    stopped: int = 0
    calls: int = 0
    tokens: int = 0
    cost_micro_usd: int | None = None
    versions: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    ends_run: bool = False

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def read_plain(plain: Mapping[str, Any]) -> Record:
    """Return the record that `plain` was made of."""
    return TypeAdapter(Record).validate_python(plain)


# --- the state --------------------------------------------------------------------------------------

Lines = Callable[[sa.Connection], Iterator[str]]


def _refunds(connection: sa.Connection) -> Iterator[str]:
    for refund in refunds.list_all(connection):
        units: Counter[str] = Counter()
        for line, item_id in zip(refund.lines, refund.item_ids, strict=True):
            units[item_id] += line.quantity
        items = ", ".join(f"{units[item_id]} {item_id}" for item_id in sorted(units))
        yield f"refund {refund.order_id}: {items}, {refund.amount}, {refund.status.value}"


def _goodwill(connection: sa.Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(schema.goodwill_codes)):
        # Any percent that the policy gives is right; `given` has it.
        yield f"goodwill {row.order_id}"


def _requests(connection: sa.Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(schema.remedies)):
        items = ", ".join(sorted(f"{each['quantity']} {each['item_id']}" for each in row.items))
        yield f"{row.kind} {row.order_id}: {f'{items}, ' if items else ''}{row.status}"


def _offers(connection: sa.Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(schema.offers)):
        yield f"offer {row.order_id}: {row.percent}%, {row.status}"


def _hand_overs(connection: sa.Connection) -> Iterator[str]:
    query = sa.select(schema.conversations.c.handed_over_reason)
    for reason in connection.scalars(query.where(schema.conversations.c.status == "handed_over")):
        yield "handed over" if reason in BY_THE_AGENT else f"stopped: {reason}"


# The functions whose lines make up the state that tasks compare. For a new remedy, add one here.
STATES: tuple[Lines, ...] = (_refunds, _requests, _offers, _goodwill, _hand_overs)
HARMLESS = ("handed over", "stopped")


# --- the rest ---------------------------------------------------------------------------------------


def read_record(connection: sa.Connection) -> Record:
    """Return the record, with everything that scores need."""
    calls = schema.model_calls.c
    count, read, written, cost = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.coalesce(sa.func.sum(calls.input_tokens), 0),
            sa.func.coalesce(sa.func.sum(calls.output_tokens), 0),
            sa.func.sum(calls.cost_micro_usd),
        )
    ).one()
    outbound, inbound = schema.outbound_mails.c, schema.inbound_mails.c
    handed_over = sa.select(schema.conversations.c.handed_over_reason)
    return Record(
        state=tuple(sorted(line for lines in STATES for line in lines(connection))),
        wishes=tuple(filter(None, connection.scalars(sa.select(schema.remedies.c.wish)))),
        told=_told(connection),
        named=_named(connection),
        mails=tuple(
            Sent(row.to_address, row.purpose, row.text, find_language(_without_passages(row.text)))
            for row in connection.execute(
                sa.select(outbound.to_address, outbound.purpose, outbound.text).order_by(
                    outbound.created_at, outbound.outbound_id
                )
            )
        ),
        refunds=tuple(_paid(connection)),
        given=tuple(_given(connection)),
        hand_over=connection.scalar(
            handed_over.where(schema.conversations.c.status == "handed_over").limit(1)
        ),
        unanswered=connection.scalar(
            sa.select(sa.func.count()).where(inbound.status.in_(["unanswered", "throttled"]))
        )
        or 0,
        stopped=_stopped(connection),
        calls=count,
        tokens=int(read + written),
        cost_micro_usd=None if cost is None else int(cost),
        versions=_versions(connection),
    )


def _without_passages(text: str) -> str:
    """Return a mail without the shop's knowledge, which is in the language that the shop wrote it in."""
    for passage in services.current().knowledge.passages:
        text = text.replace(passage.text, "")
    return text


def _versions(connection: sa.Connection) -> tuple[str, ...]:
    """Return the model with the hashes of prompt and tools, as /ops/model tells outcomes by."""
    calls = schema.model_calls.c
    rows = connection.execute(
        sa.select(calls.model, calls.prompt_version, calls.tools_version).distinct()
    )
    return tuple(sorted(" ".join(part or "-" for part in row) for row in rows))


def _told(connection: sa.Connection) -> tuple[str, ...]:
    rows = connection.scalars(sa.select(schema.outbound_mails.c.sources))
    return tuple(
        sorted({source.rpartition("@")[0] or source for row in rows for source in row or ()})
    )


def _named(connection: sa.Connection) -> tuple[str, ...]:
    """Return the ids of what the replies named, without those replies that the check refused."""
    replies: list[str] = []
    for words in _texts(connection):
        if "text" in words:
            replies.append(words["text"])
        elif _is_refusal(words):
            replies.pop()
    parts = (part for each in replies for part in parse(each).parts if not isinstance(part, Words))
    return tuple(sorted({next(iter(part.model_dump().values())) for part in parts}))


def _stopped(connection: sa.Connection) -> int:
    """Count the replies that the check refused."""
    return sum(map(_is_refusal, _texts(connection)))


def _texts(connection: sa.Connection) -> sa.ScalarResult[Any]:
    words = schema.step_texts.c
    return connection.scalars(sa.select(words.words).order_by(words.at, words.text_id))


def _is_refusal(words: Mapping[str, Any]) -> bool:
    return any('"reply_check"' in str(item.get("content")) for item in words.get("items") or ())


def _paid(connection: sa.Connection) -> Iterator[Paid]:
    rows = {row.refund_id: row for row in _of_orders(connection, schema.refunds)}
    for refund in refunds.list_all(connection):
        row = rows[refund.refund_id]
        entries = _ledger(connection, refund.refund_id)
        came_to = sum(line.amount.minor for line in refund.lines) + refund.shipping_minor
        facts = read_facts(row.policy_facts)
        yield Paid(
            order_id=refund.order_id,
            owner=row.owner,
            customer=row.customer,
            status=refund.status.value,
            minor=refund.amount.minor,
            ledger_minor=sum(entries),
            ledger_entries=len(entries),
            lines_minor=came_to - refund.short_minor,
            paid_minor=row.paid_minor,
            decided_by=refund.decided_by or "",
            decisions=_count_approvals(connection, refund.refund_id),
            verdict=type(decide(facts, services.current().policy, refund.requested_at)).__name__,
        )


def _given(connection: sa.Connection) -> Iterator[Given]:
    policy = services.current().policy
    most = policy.goodwill.most_percent if policy.goodwill else 0
    for row in _of_orders(connection, schema.goodwill_codes):
        yield Given("goodwill", row.order_id, row.owner, row.customer, row.percent, most)
    for row in _of_orders(connection, schema.remedies):
        yield Given(row.kind, row.order_id, row.owner, row.customer)
    usual = policy.keep_offers.percent_by_reason if policy.keep_offers else {}
    for row in _of_orders(connection, schema.offers):
        # A manager may offer any part of the price.
        most = usual.get(RefundReason(row.reason), 0) if row.offered_by == POLICY else row.percent
        yield Given("offer", row.order_id, row.owner, row.customer, row.percent, most)


def _of_orders(connection: sa.Connection, table: sa.Table) -> sa.CursorResult[Any]:
    """Return a table's rows with what was paid for the order, its customer, and that of the conversation."""
    orders, conversations = schema.orders, schema.conversations
    owner, customer = orders.c.customer_email, conversations.c.customer_email
    return connection.execute(
        sa.select(table, orders.c.paid_minor, owner.label("owner"), customer.label("customer"))
        .join(orders, orders.c.order_id == table.c.order_id)
        .join(conversations, conversations.c.conversation_id == table.c.conversation_id)
    )


def _ledger(connection: sa.Connection, refund_id: str) -> list[int]:
    ledger = schema.ledger_entries.c
    return list(
        connection.scalars(sa.select(ledger.amount_minor).where(ledger.refund_id == refund_id))
    )


def _count_approvals(connection: sa.Connection, refund_id: str) -> int:
    approvals, decisions = schema.approvals, schema.decisions
    query = sa.select(sa.func.count()).select_from(decisions).join(approvals)
    return (
        connection.scalar(
            query.where(approvals.c.refund_id == refund_id, decisions.c.decision == "approve")
        )
        or 0
    )
