"""The demo's model: reads the case, follows tool results, and writes a truthful reply.

A pure function from what the app sent to the next turn: the same request gets the same answer, so a
run that is recovered after a crash goes on as it began.
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
class Case:
    """One letter as the model sees it. `text` may hold the earlier request that it goes on with."""

    text: str
    wish: Wish
    language: Language
    order_ids: tuple[str, ...]


def read_case(content: str) -> Case:
    """Return the case in the first user item's JSON text.

    Raises ValueError when it is not the JSON object that mailagent sends.
    """
    facts = json.loads(content)
    if not isinstance(facts, dict) or not isinstance(facts.get("mails"), list):
        raise ValueError("the first user item is not a case: an object with `mails` is expected")
    text = "\n".join(
        f"{mail.get('subject', '')}\n{mail.get('text', '')}" for mail in facts["mails"]
    )
    bodies = "\n".join(str(mail.get("text", "")) for mail in facts["mails"])
    said = [str(item.get("text", "")) for item in facts.get("history", [])]
    own = [
        str(item.get("text", ""))
        for item in facts.get("history", [])
        if item.get("from") == "customer"
    ]
    return _case(bodies, text, "\n".join(own), "\n".join(said[::-1]))


def _case(bodies: str, text: str, own: str, said: str) -> Case:
    """Put the case together; a letter without a wish of its own goes on with the customer's earlier one."""
    # The subject of an answer repeats the first mail's: only the body says what is wanted now.
    wish = find_wish(bodies) if own else find_wish(text)
    if own and wish in (Wish.YES, Wish.UNCLEAR) and find_wish(own) in (Wish.REFUND, Wish.NEWS):
        wish, text = find_wish(own), f"{text}\n{own}"
    order_ids = find_order_ids(bodies) or find_order_ids(text) or find_order_ids(said)[:1]
    return Case(text, wish, guess_language(bodies, text, own), order_ids[:_MAX_ORDERS])


def next_turn(case: Case, results: Sequence[ToolResult], corrected: bool = False) -> Turn:
    """Decide what the model does next. `corrected`: the app found the last reply untrue."""
    if corrected:
        return _hand_over("cannot_help", case)
    if case.wish is Wish.PERSON:
        return _hand_over("customer_asked", case)
    if case.wish is Wish.THANKS:
        return _say(case, phrase(case.language, "thanks"))
    if case.wish in (Wish.UNCLEAR, Wish.YES) and not case.order_ids:
        return _say(case, phrase(case.language, "unclear"))
    order_ids = case.order_ids or _orders_meant(case, results)
    if isinstance(order_ids, Call | Say):
        return order_ids
    if case.wish is Wish.WITHDRAW:
        return _withdraw(case, order_ids, results)
    return _look_and_propose(case, order_ids, results)


def _orders_meant(case: Case, results: Sequence[ToolResult]) -> tuple[str, ...] | Turn:
    """Find out which order a letter without a number is about."""
    found = _find(results, "find_my_orders")
    if found is None:
        return Call("find_my_orders", {})
    if "error" in found:
        told = _tool_error(case, found, "")
        return told if isinstance(told, Call) else _say(case, told)
    orders = found.get("orders", [])
    if not orders:
        return _say(case, phrase(case.language, "no_orders"))
    named = [order for order in orders if _names_one_of(case.text, order.get("items", []))]
    meant = named or orders
    if len(meant) == 1:
        return (str(meant[0]["order_id"]),)
    key = "your_orders" if case.wish is Wish.NEWS else "which_order"
    lines = [
        f"{order['order_id']} ({order['placed_at']}): {', '.join(order['items'])}"
        for order in meant
    ]
    return _say(case, phrase(case.language, key), "\n".join(lines))


def _names_one_of(text: str, names: Sequence[str]) -> bool:
    return any(names_item(text, name) for name in names)


def _look_and_propose(case: Case, order_ids: Sequence[str], results: Sequence[ToolResult]) -> Turn:
    """Look at each order, then propose a refund for each if that is the wish, then tell."""
    paragraphs = []
    for order_id in order_ids:
        order = _find(results, "look_at_order", order_id)
        if order is None:
            return Call("look_at_order", {"order_id": order_id})
        if "error" in order:
            told = _tool_error(case, order, order_id)
        elif case.wish is Wish.REFUND:
            told = _propose(case, order_id, order, _find(results, "propose_refund", order_id))
        else:
            told = order_news(case.language, order)
        if isinstance(told, Call):
            return told
        paragraphs.append(told)
    return _say(case, *dict.fromkeys(paragraphs))


def _withdraw(case: Case, order_ids: Sequence[str], results: Sequence[ToolResult]) -> Turn:
    """Take back what was asked for on each order, then tell what came of it."""
    paragraphs = []
    for order_id in order_ids:
        outcome = _find(results, "withdraw_refund", order_id)
        if outcome is None:
            return Call("withdraw_refund", {"order_id": order_id})
        if "error" in outcome:
            told = _tool_error(case, outcome, order_id)
            if isinstance(told, Call):
                return told
            paragraphs.append(told)
        else:
            paragraphs.append(withdrawal_sentence(case.language, outcome))
    return _say(case, *dict.fromkeys(paragraphs))


def _propose(
    case: Case, order_id: str, order: Mapping[str, Any], outcome: Mapping[str, Any] | None
) -> str | Call:
    if outcome is None:
        items = choose_items(case.text, order.get("items", []))
        return Call(
            "propose_refund",
            {
                "order_id": order_id,
                "items": [{"item_id": item_id, "quantity": None} for item_id in items],
                "reason": str(pick_reason(case.text)),
            },
        )
    if "error" in outcome:
        return _tool_error(case, outcome, order_id)
    return outcome_sentence(case.language, order, outcome)


def _tool_error(case: Case, output: Mapping[str, Any], order_id: str) -> str | Call:
    """Tell what a tool could not do; what cannot be told goes to a person."""
    if output["error"] == "no_such_order" and order_id:
        return phrase(case.language, "no_such_order", order_id=order_id)
    if output["error"] == "sender_not_verified":
        return phrase(case.language, "not_verified")
    return _hand_over("cannot_help", case)


def _hand_over(reason: str, case: Case) -> Call:
    opening = " ".join(case.text.split())[:200]
    return Call("hand_over", {"reason": reason, "summary": f"The customer wrote: {opening}"})


def _say(case: Case, *paragraphs: str) -> Say:
    return Say(letter(case.language, paragraphs))


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
