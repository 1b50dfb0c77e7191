"""Sample facts of every mail, to render it before there is anything to tell: by the check of a shop's
own templates at start, by the gallery, and by tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

from mailagent.domain.money import Money

# Mails that customers get; all others go to people of the shop.
TO_CUSTOMERS = frozenset(
    {
        "reply",
        "receipt",
        "refund_rejected",
        "refund_expired",
        "refund_failed",
        "refund_returned",
        "handed_over",
        "neutral_reply",
        "team_reply",
    }
)
COMMON = {"support_name": "shop.example", "support_address": "support@shop.example"}
LINK = "https://support.shop.example/approvals/token"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

_USD = Money(129_900, "USD")
_PART = Money(29_900, "USD")
_FIRST = {"decided_by": "max@shop.example", "decided_at": NOON, "amount": _PART, "note": "Sure?"}
_GOODWILL = {"percent": 10, "code": "K7MX-4PQR-9TWZ", "expires_at": NOON, "order_id": "W1001"}


def facts_of(words: str = "My kettle") -> dict[str, dict[str, Any]]:
    """Return the facts of every mail, each that may be missing present; `words` are in all that a
    stranger could have a hand in."""
    thread = {"subject": words}
    refund = thread | {"order_id": "W1001", "amount": _USD}
    return {
        "reply": thread | {"text": words, "confirm_code": "482716", "goodwill": _GOODWILL},
        "receipt": refund | _receipt(words),
        "refund_rejected": refund | {"note": words},
        "refund_expired": refund | {"requested_at": NOON},
        "refund_failed": refund | {"part_paid": _PART, "payments": _payments(words)[-1:]},
        "refund_returned": refund | {"returned": _PART, "reference": words},
        "handed_over": thread | {"goodwill": _GOODWILL},
        "neutral_reply": thread | {"goodwill": _GOODWILL},
        "team_reply": thread | {"text": words, "member": words},
        "notice": {"title": words, "lines": [words]},
        "approval_request": _approval_request(words),
        "hand_over": thread | _hand_over(words),
    }


# What of those facts may be missing, or otherwise.
_WITHOUT: dict[str, dict[str, Any]] = {
    "reply": {"subject": None, "confirm_code": None, "goodwill": None},
    "receipt": {
        "subject": None,
        "shipping": None,
        "asked": None,
        "note": None,
        "payments": [{"method": "card", "amount": _USD, "reference": None, "expected_days": None}],
    },
    "refund_rejected": {"subject": None, "note": None},
    "refund_expired": {"subject": None},
    "refund_failed": {"subject": None, "part_paid": None, "payments": []},
    "refund_returned": {"subject": None, "returned": _USD, "reference": None},
    "handed_over": {"subject": None, "goodwill": None},
    "neutral_reply": {"subject": None, "goodwill": None},
    "team_reply": {"subject": None},
    "approval_request": {
        "customer_name": "",
        "customer_since": None,
        "shipping": None,
        "attachments": [],
        "first_approval": _FIRST,
    },
    "hand_over": {"customer_name": "", "sender_verified": True, "summary": None, "refunds": []},
}


def list_samples(name: str) -> Iterator[dict[str, Any]]:
    """Yield facts of one mail: with all that there can be, with one thing missing each, with nothing
    that may be missing. Raises KeyError for a mail that does not exist."""
    full, missing = facts_of()[name], _WITHOUT.get(name, {})
    yield full
    for fact, value in missing.items():
        yield full | {fact: value}
    yield full | missing


def _payments(words: str) -> list[dict[str, Any]]:
    return [
        {"method": "card", "amount": Money(70_000, "USD"), "reference": words, "expected_days": 10},
        {"method": "paypal", "amount": Money(20_000, "USD"), "reference": words}
        | {"expected_days": 1},
        {"method": "store_credit", "amount": Money(10_000, "USD"), "reference": words}
        | {"expected_days": 0},
        {"method": "gift_card", "amount": _PART, "reference": words, "expected_days": None},
    ]


def _receipt(words: str) -> dict[str, Any]:
    return {
        "items": [{"name": words, "quantity": 1, "amount": Money(159_500, "USD")}],
        "shipping": Money(500, "USD"),
        "asked": Money(160_000, "USD"),
        "payments": _payments(words),
        "paid_at": NOON,
        "note": words,
    }


def _approval_request(words: str) -> dict[str, Any]:
    return {
        "link_url": LINK,
        "manager_email": "mona@shop.example",
        "order_id": "W1001",
        "customer_name": words,
        "customer_email": "ada@example.com",
        "customer_since": date(2024, 2, 29),
        "amount": _USD,
        "already_refunded": Money(0, "USD"),
        "paid": Money(150_000, "USD"),
        "items": [{"name": words, "quantity": 1, "amount": Money(129_400, "USD")}],
        "shipping": Money(500, "USD"),
        "reason": "it arrived damaged",
        "policy_reasons": ["the amount is above $1,000.00"],
        "customer_text": words,
        "attachments": [words],
        "requested_at": NOON,
        "expires_at": NOON,
        "first_approval": None,
    }


def _hand_over(words: str) -> dict[str, Any]:
    return {
        "customer_name": words,
        "customer_email": "ada@example.com",
        "answer_to": "case+abcdefghijklmnop@shop.example",
        "sender_verified": False,
        "conversation_id": "c_17",
        "why": "the customer asked for a person",
        "summary": words,
        "mails": [
            {"from_customer": from_customer, "at": NOON, "subject": words, "text": words}
            | {"attachments": [words]}
            for from_customer in (True, False)
        ],
        "refunds": [{"order_id": "W1001", "amount": _USD, "status": "paid", "requested_at": NOON}],
    }
