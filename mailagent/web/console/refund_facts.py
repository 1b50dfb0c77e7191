"""Why a refund was decided as it was, in words: what the policy looked at, and what became of payments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from babel import Locale

from mailagent.adapters.templates.formats import format_money
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderStatus
from mailagent.store.database import Row

_ENGLISH = Locale.parse("en")

_STATES = {
    "asked": ("the gateway was asked", "waiting"),
    "done": ("given back", "good"),
    "refused": ("refused by the gateway", "bad"),
}

Fact = tuple[str, str]


def describe_facts(facts: Mapping[str, Any]) -> list[Fact]:
    """Return what the policy knew when it decided, a label and a value each; of refunds recorded before
    some fact was kept, what there is."""
    return list(_facts(facts))


def _facts(facts: Mapping[str, Any]) -> Iterator[Fact]:
    yield from _amounts(facts)
    if status := facts.get("order_status"):
        yield "State of the order", OrderStatus(status).value
    if delivered_at := facts.get("delivered_at"):
        yield "Delivered", str(delivered_at)[:10]
    if "photos" in facts:
        yield "Photos sent", str(facts["photos"])
    if methods := facts.get("methods"):
        yield "Paid by", ", ".join(methods)
    categories = {line.get("category") for line in facts.get("lines", ())} - {None}
    if categories:
        yield "Categories", ", ".join(sorted(categories))
    yield from _earlier(facts)


def _amounts(facts: Mapping[str, Any]) -> Iterator[Fact]:
    labels = {
        "amount": "Asked for",
        "worth": "Worth of the items",
        "remaining": "Left of what was paid",
        "charged_back": "Taken back by the bank",
        "seen_by_one": "Approved by one person before",
    }
    for name, label in labels.items():
        amount = facts.get(name)
        # Nothing charged back is no news.
        if amount and not (name not in ("amount", "remaining") and _is_zero(amount)):
            yield label, str(amount)


def _is_zero(amount: str) -> bool:
    return not set(amount.partition(" ")[0]) - set("0.")


def _earlier(facts: Mapping[str, Any]) -> Iterator[Fact]:
    if facts.get("refused_before"):
        yield "Refused before", "a refund of some of the same items"
    if facts.get("items_before"):
        yield "Refunded before", "units of the same items"
    labels = {
        "granted_unasked": "Refunded without asking, this order",
        "of_customer": "Refunded without asking, this customer",
        "of_day": "Refunded without asking, the shop in a day",
    }
    for name, label in labels.items():
        granted = facts.get(name)
        if granted:
            yield label, f"{granted['amount']} in {granted['count']}"


def describe_payments(rows: Sequence[Row], currency: str) -> list[dict[str, Any]]:
    """Return what became of each payment that gives money back."""
    return [_payment(row, currency) for row in rows]


def _payment(row: Row, currency: str) -> dict[str, Any]:
    state, kind = _STATES[row.state]
    if row.returned_at:
        state, kind = "came back to the shop", "bad"
    return {
        "payment_id": row.payment_id,
        "amount": money(row.amount_minor, currency),
        "state": state,
        "kind": kind,
        "reference": row.reference,
        "problem": row.problem,
        "attempts": row.attempts,
        "at": row.returned_at or row.done_at or row.intended_at,
    }


def money(minor: int, currency: str) -> str:
    """Return an amount as people of the shop read it."""
    return format_money(Money(minor, currency), _ENGLISH)
