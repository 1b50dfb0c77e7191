"""The demo's model: reads a mail, follows tool results, and writes a truthful reply.

The same input always gives the same turn, so a run that is recovered after a crash continues as it began.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailagent.demo.reading import (
    Language,
    Wish,
    choose_items,
    find_order_ids,
    find_wish,
    guess_language,
    names_item,
    pick_reason,
)

_MAX_ORDERS = 3  # of one letter; each costs two turns


@dataclass(frozen=True, slots=True)
class Call:
    """Use a tool."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """End the turn with this reply."""

    text: str


Turn = Call | Say


@dataclass(frozen=True, slots=True)
class ToolResult:
    name: str
    arguments: Mapping[str, Any]
    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CustomerRequest:
    """One request as the model sees it. `text` also holds an earlier request that it continues."""

    text: str
    wish: Wish
    language: Language
    order_ids: tuple[str, ...]


def read_request(content: str) -> CustomerRequest:
    """Return the request in the first user item's JSON text.

    Raises ValueError when it is not the JSON object that mailagent sends.
    """
    facts = json.loads(content)
    if not isinstance(facts, dict) or not isinstance(facts.get("mails"), list):
        raise ValueError("the first user item is not a request: an object with `mails` is expected")
    mails, history = facts["mails"], facts.get("history", [])
    bodies = "\n".join(str(mail.get("text", "")) for mail in mails)
    text = "\n".join(f"{mail.get('subject', '')}\n{mail.get('text', '')}" for mail in mails)
    said = [str(item.get("text", "")) for item in history]
    own = "\n".join(str(item["text"]) for item in history if item.get("from") == "customer")
    # The subject of an answer repeats the first mail's: only the body says what is wanted now.
    wish = find_wish(bodies) if own else find_wish(text)
    if own and wish in (Wish.YES, Wish.UNCLEAR) and find_wish(own) in (Wish.REFUND, Wish.NEWS):
        wish, text = find_wish(own), f"{text}\n{own}"
    earlier = find_order_ids("\n".join(said[::-1]))[:1]
    order_ids = find_order_ids(bodies) or find_order_ids(text) or earlier
    return CustomerRequest(text, wish, guess_language(bodies, text, own), order_ids[:_MAX_ORDERS])


def next_turn(
    request: CustomerRequest, results: Sequence[ToolResult], corrected: bool = False
) -> Turn:
    """Decide what the model does next. `corrected`: the app found the last reply untrue."""
    if corrected:
        return _hand_over("cannot_help", request)
    if request.wish is Wish.PERSON:
        return _hand_over("customer_asked", request)
    if request.wish is Wish.THANKS:
        return _say(request, phrase(request.language, "thanks"))
    if request.wish in (Wish.UNCLEAR, Wish.YES) and not request.order_ids:
        return _say(request, phrase(request.language, "unclear"))
    order_ids = request.order_ids or _orders_meant(request, results)
    if isinstance(order_ids, Call | Say):
        return order_ids
    work_on = _withdraw if request.wish is Wish.WITHDRAW else _look_and_propose
    paragraphs = []
    for order_id in order_ids:
        told = work_on(request, results, order_id)
        if isinstance(told, Call):
            return told
        paragraphs.append(told)
    return _say(request, *dict.fromkeys(paragraphs))


def _orders_meant(
    request: CustomerRequest, results: Sequence[ToolResult]
) -> tuple[str, ...] | Turn:
    """Find out which order a letter without a number is about."""
    found = _find(results, "find_my_orders")
    if found is None:
        return Call("find_my_orders", {})
    if "error" in found:
        told = _tool_error(request, found, "")
        return told if isinstance(told, Call) else _say(request, told)
    orders = found.get("orders", [])
    if not orders:
        return _say(request, phrase(request.language, "no_orders"))
    named = [
        order
        for order in orders
        if any(names_item(request.text, name) for name in order.get("items", []))
    ]
    meant = named or orders
    if len(meant) == 1:
        return (str(meant[0]["order_id"]),)
    key = "your_orders" if request.wish is Wish.NEWS else "which_order"
    lines = [
        f"{order['order_id']} ({order['placed_at']}): {', '.join(order['items'])}"
        for order in meant
    ]
    return _say(request, phrase(request.language, key), "\n".join(lines))


def _look_and_propose(
    request: CustomerRequest, results: Sequence[ToolResult], order_id: str
) -> str | Call:
    """Look at an order, and propose a refund if that is the wish; then say what came of it."""
    order = _find(results, "look_at_order", order_id)
    if order is None:
        return Call("look_at_order", {"order_id": order_id})
    if "error" in order:
        return _tool_error(request, order, order_id)
    if request.wish is not Wish.REFUND:
        return order_news(request.language, order)
    outcome = _find(results, "propose_refund", order_id)
    if outcome is None:
        items = choose_items(request.text, order.get("items", []))
        return Call(
            "propose_refund",
            {
                "order_id": order_id,
                "items": [{"item_id": item_id, "quantity": None} for item_id in items],
                "reason": str(pick_reason(request.text)),
            },
        )
    if "error" in outcome:
        return _tool_error(request, outcome, order_id)
    return outcome_sentence(request.language, order, outcome)


def _withdraw(request: CustomerRequest, results: Sequence[ToolResult], order_id: str) -> str | Call:
    outcome = _find(results, "withdraw_refund", order_id)
    if outcome is None:
        return Call("withdraw_refund", {"order_id": order_id})
    if "error" in outcome:
        return _tool_error(request, outcome, order_id)
    return withdrawal_sentence(request.language, outcome)


def _tool_error(request: CustomerRequest, output: Mapping[str, Any], order_id: str) -> str | Call:
    """Tell what a tool could not do; what cannot be told goes to a person."""
    if output["error"] == "no_such_order" and order_id:
        return phrase(request.language, "no_such_order", order_id=order_id)
    if output["error"] == "sender_not_verified":
        return phrase(request.language, "not_verified")
    return _hand_over("cannot_help", request)


def _hand_over(reason: str, request: CustomerRequest) -> Call:
    opening = " ".join(request.text.split())[:200]
    return Call("hand_over", {"reason": reason, "summary": f"The customer wrote: {opening}"})


def _say(request: CustomerRequest, *paragraphs: str) -> Say:
    return Say(letter(request.language, paragraphs))


def _find(
    results: Sequence[ToolResult], name: str, order_id: str | None = None
) -> Mapping[str, Any] | None:
    """Return the last output of a tool, for one order where an order is named."""
    for result in reversed(results):
        if result.name == name and order_id in (None, result.arguments.get("order_id")):
            return result.output
    return None


# --- replies --------------------------------------------------------------------------------------


_PHRASES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("phrases.toml").read_text("utf-8")
)


def phrase(language: Language, key: str, **facts: str) -> str:
    """Return one sentence; a reason that has none of its own gives the plain refusal."""
    phrases = _PHRASES[language]
    return phrases.get(key, phrases["declined"]).format(**facts)


def letter(language: Language, paragraphs: Iterable[str]) -> str:
    """Return a whole reply: greeting, paragraphs, closing."""
    phrases = _PHRASES[language]
    first, *rest = paragraphs
    if language is not Language.GERMAN:  # in German, the sentence after the greeting goes on small
        first = _capitalised(first)
    body = [first, *(_capitalised(paragraph) for paragraph in rest)]
    return "\n\n".join([phrases["greeting"], *body, phrases["closing"]])


def outcome_sentence(
    language: Language, order: Mapping[str, Any], outcome: Mapping[str, Any]
) -> str:
    """Return what became of a proposed refund of `order`, as the tool said."""
    kind = str(outcome.get("outcome"))
    status = str(outcome.get("status", ""))
    if kind == "declined":
        key = str(outcome.get("reason"))
    elif kind == "already_requested":
        known = status in ("awaiting_approval", "approved", "paid")
        key = f"already_{status}" if known else "already_closed"
    else:
        key = kind
    return phrase(
        language,
        key,
        order_id=str(order["order_id"]),
        amount=str(outcome.get("amount", "")),
        items=_item_names(order, outcome.get("items", [])),
        status=status.replace("_", " "),
    )


def withdrawal_sentence(language: Language, outcome: Mapping[str, Any]) -> str:
    """Return what became of a withdrawal, as the tool said."""
    key, others = str(outcome.get("outcome")), outcome.get("not_withdrawn") or [{}]
    if key == "too_late":
        key = f"too_late_{others[-1].get('status')}"
    return phrase(
        language,
        key,
        order_id=str(outcome.get("order_id", "")),
        amount=str(others[-1].get("amount", "")),
    )


def _item_names(order: Mapping[str, Any], items: Sequence[Any]) -> str:
    """Return the names of a proposal's items, whether the tool gave names, ids or whole objects."""
    names = {str(item["item_id"]): str(item["name"]) for item in order.get("items", [])}
    told = []
    for item in items:
        if isinstance(item, Mapping):
            told.append(str(item.get("name") or names.get(str(item.get("item_id")), "")))
        else:
            told.append(names.get(str(item), str(item)))
    return ", ".join(dict.fromkeys(filter(None, told))) or ", ".join(names.values())


def order_news(language: Language, order: Mapping[str, Any]) -> str:
    """Return where an order and its refunds stand."""
    lines = [
        phrase(
            language,
            "order_news",
            order_id=str(order["order_id"]),
            status=str(order.get("status", "")),
        )
    ]
    for refund in order.get("refunds", []):
        status = str(refund.get("status", "")).replace("_", " ")
        amount = str(refund.get("amount", ""))
        lines.append(phrase(language, "refund_news", amount=amount, status=status))
    return "\n".join(lines)


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
