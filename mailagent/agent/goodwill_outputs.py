"""What offer_goodwill answers. The model learns how much and until when, never the code."""

from __future__ import annotations

from typing import Any

from mailagent.domain.refunds.goodwill import GoodwillCode

Output = dict[str, Any]

_NO_OTHER = "Do not promise any discount beside it, and no voucher or replacement."


def offered_output(code: GoodwillCode) -> Output:
    """Return the answer when a discount was given, now or by the same call before."""
    return {
        "outcome": "offered",
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": f"Tell the customer that they get {code.percent}% off a later order, and that the code"
        " and its last day stand below your text, in the same mail. The shop adds them; do not"
        f" write a code yourself. {_NO_OTHER}",
    }


def already_given_output(code: GoodwillCode) -> Output:
    """Return the answer for an order, or a mail, that has had its discount."""
    return {
        "outcome": "already_given",
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": "There is one discount for an order, and one in answer to a mail, and this one was"
        f" given: {code.percent}% off a later order. The customer has its code by mail. {_NO_OTHER}",
    }


def not_for_this_order_output(order_id: str) -> Output:
    """Return the answer for an order that was cancelled, or whose money the customer's bank took back."""
    return {
        "error": "not_for_this_order",
        "order_id": order_id,
        "say": "Nothing was given: there is no discount for an order that was cancelled or charged"
        f" back. {_NO_OTHER}",
    }


def above_cap_output(most_percent: int) -> Output:
    """Return the answer to more than the shop gives."""
    return {
        "error": "above_cap",
        "most_percent": most_percent,
        "say": f"Nothing was given: the most is {most_percent} percent.",
    }


def _last_day(code: GoodwillCode) -> str:
    return code.expires_at.date().isoformat()
