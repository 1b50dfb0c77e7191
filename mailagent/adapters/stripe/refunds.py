"""Stripe's refund object, https://docs.stripe.com/api/refunds/object, and its amounts. Needs no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent.domain.money import Money, exponent
from mailagent.domain.refunds.payment import GatewayRefund, RefundState

NAME = "stripe"
TITLE = "Stripe"
SECRET_SETTING = "STRIPE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable

# The metadata field with our idempotency key, which stays the same if we ask under another key.
KEY_FIELD = "mailagent_key"

# `requires_action` waits for the customer and becomes `canceled` if the customer does nothing.
PENDING = frozenset({"pending", "requires_action"})
FAILED = frozenset({"failed", "canceled"})


def is_stripe_payment(payment_id: str) -> bool:
    """Return whether a payment was made through Stripe, by the form of its id."""
    return payment_id.startswith(("pi_", "ch_", "py_"))


def read_refund(fields: Mapping[str, Any]) -> GatewayRefund:
    """Parse a refund object. Raises ValueError if it is not one, or has an unknown status."""
    try:
        metadata = fields.get("metadata") or {}
        return GatewayRefund(
            reference=_text(fields["id"]),
            gateway=NAME,
            payment_ids=payment_ids(fields),
            amount=from_stripe(int(fields["amount"]), _text(fields["currency"])),
            state=_state(fields["status"]),
            idempotency_key=metadata.get(KEY_FIELD),
            order_id=metadata.get("order_id"),
            why=fields.get("failure_reason") or None,
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"not a refund of Stripe's: {problem!r}") from None


def payment_ids(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of an object's payment: its payment intent and its charge, if it names them.

    Stripe may have expanded either into an object.
    """
    found = (fields.get("payment_intent"), fields.get("charge"))
    ids = (each.get("id") if isinstance(each, Mapping) else each for each in found)
    return tuple(each for each in ids if isinstance(each, str))


def _state(status: object) -> RefundState:
    if status in PENDING:
        return RefundState.PENDING
    if status in FAILED:
        return RefundState.FAILED
    if status == "succeeded":
        return RefundState.SETTLED
    raise ValueError(f"a Stripe refund has the unknown status {status!r}")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not a text")
    return value


# --- amounts in Stripe's smallest unit: https://docs.stripe.com/currencies ------------------------


# Where Stripe differs from ISO 4217 ("zero-decimal currencies" and "special cases" of that page).
_TWO_DECIMALS = frozenset({"ISK", "UGX"})  # none in ISO; at Stripe the two are always 00
_NO_DECIMALS = frozenset({"MGA"})  # two in ISO
_THREE_DECIMALS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})


def to_stripe(money: Money) -> int:
    """Return an amount in Stripe's smallest unit. Raises ValueError if Stripe cannot express it."""
    shift = _shift(money.currency)
    factor: int = 10 ** abs(shift)
    if shift < 0 and money.minor % factor:
        raise ValueError(f"Stripe has no {money}: only whole {money.currency}")
    minor = money.minor * factor if shift >= 0 else money.minor // factor
    if money.currency in _THREE_DECIMALS and minor % 10:
        raise ValueError(f"Stripe has no {money}: the last of three decimals must be 0")
    return minor


def from_stripe(amount: int, currency: str) -> Money:
    """Return Stripe's amount as money."""
    code = currency.upper()
    shift = _shift(code)
    return Money(amount * 10**-shift if shift < 0 else amount // 10**shift, code)


def _shift(currency: str) -> int:
    if currency in _TWO_DECIMALS:
        return 2 - exponent(currency)
    if currency in _NO_DECIMALS:
        return -exponent(currency)
    return 0
