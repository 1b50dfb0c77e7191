"""Amounts and times as platforms write them, and our mark on a refund there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from mailagent.domain.money import exponent
from mailagent.domain.refunds.order import Payment

_MARK = re.compile(r"Refund (\S+) by mailagent")
_AMOUNT = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,8})?")


def mark_of(key: str) -> str:
    """Return the note by which we know a refund of ours. Customers may read it."""
    return f"Refund {key} by mailagent"


def cancel_mark_of(key: str) -> str:
    """Return the note by which we know that items were cancelled."""
    return f"Cancellation {key} by mailagent"


def key_in(note: object) -> str | None:
    """Return the idempotency key in a note of ours; None in another's."""
    found = _MARK.fullmatch(note) if isinstance(note, str) else None
    return found[1] if found else None


def to_minor(text: object, currency: str, *, rounded: bool = False) -> int:
    """Return an amount in minor units. Raises ValueError for what is none, and for parts of a minor unit
    unless `rounded`."""
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount")
    minor = Decimal(text).scaleb(exponent(currency))
    whole = minor.quantize(Decimal(1), ROUND_HALF_UP)
    if whole != minor and not rounded:
        raise ValueError(f"{text!r} is not an amount of {currency}")
    return int(whole)


def spread(payments: Sequence[Payment], minor: int) -> tuple[Payment, ...]:
    """Return the payments with `minor` more refunded, from the first on: the platform does not say of which."""
    done = []
    for payment in payments:
        part = min(minor, payment.amount.minor - payment.refunded_minor)
        done.append(replace(payment, refunded_minor=payment.refunded_minor + part))
        minor -= part
    return tuple(done)
