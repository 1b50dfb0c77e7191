"""The letters that the demo's scripted model writes; the sentences stand in `phrases.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mailagent.demo.reading import Language

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
