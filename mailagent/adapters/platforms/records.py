"""Amounts and times as platforms write them, and our mark on a refund there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from mailagent.domain.money import exponent
from mailagent.domain.refunds.order import Order, Payment

_MARK = re.compile(r"Refund (\S+) by mailagent")
# In minor units. No order costs more, and it fits the integers of databases.
MOST_MINOR = 10**16
_AMOUNT = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,8})?")


def mark_of(key: str) -> str:
    """Return the note by which we recognise our own refund. Customers may read it."""
    return f"Refund {key} by mailagent"


def cancel_mark_of(key: str) -> str:
    """Return the note by which we recognise our own cancellation of items."""
    return f"Cancellation {key} by mailagent"


def key_in(note: object) -> str | None:
    """Return the idempotency key in a note of ours; None for any other note."""
    found = _MARK.fullmatch(note) if isinstance(note, str) else None
    return found[1] if found else None


def to_minor(text: object, currency: str, *, rounded: bool = False) -> int:
    """Return an amount in minor units. Raises ValueError if the text is no amount, or has parts of a minor
    unit; `rounded`: round these instead."""
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount")
    minor = Decimal(text).scaleb(exponent(currency))
    whole = minor.quantize(Decimal(1), ROUND_HALF_UP)
    if whole != minor and not rounded:
        raise ValueError(f"{text!r} is not an amount of {currency}")
    return int(whole)


def checked(order: Order) -> Order:
    """Return the order if its amounts and ids are possible. Raises ValueError if not, because we could not
    store it."""
    sums = (order.discount_minor, order.shipping_minor, order.tax_minor)
    if min(sums) < 0 or max(sums) > MOST_MINOR:
        raise ValueError(f"discount, shipping or tax is {', '.join(map(str, sums))} minor units")
    for line in order.lines:
        price = line.quantity * line.unit_price.minor
        if line.quantity < 1 or not 0 <= line.discount_minor <= price <= MOST_MINOR:
            raise ValueError(
                f"{line.quantity} units at {line.unit_price}, less {line.discount_minor}"
            )
    for each in order.payments:
        if not 0 <= each.refunded_minor <= each.amount.minor <= MOST_MINOR:
            raise ValueError(f"a payment of {each.amount}, less {each.refunded_minor}")
    _check_ids("payment", [each.payment_id for each in order.payments])
    _check_ids("shipment", [each.shipment_id for each in order.shipments])
    return order


def _check_ids(what: str, ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        raise ValueError(f"a {what}'s id stands twice: {', '.join(ids)}")


def spread(payments: Sequence[Payment], minor: int) -> tuple[Payment, ...]:
    """Return the payments with `minor` more refunded, in minor units, beginning with the first payment: the
    platform does not say which payment was refunded."""
    done = []
    for payment in payments:
        part = min(minor, payment.amount.minor - payment.refunded_minor)
        done.append(replace(payment, refunded_minor=payment.refunded_minor + part))
        minor -= part
    return tuple(done)
