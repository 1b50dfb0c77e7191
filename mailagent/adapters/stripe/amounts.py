"""Amounts as Stripe writes them, https://docs.stripe.com/currencies: mostly, but not always, ISO 4217."""

from __future__ import annotations

from mailagent.domain.money import Money, exponent

# "Zero-decimal currencies" and "special cases" of that page, where they differ from ISO 4217: these
# have no decimals in ISO's table, yet Stripe wants two, always 00.
_TWO_DECIMALS = frozenset({"ISK", "UGX"})
# Stripe wants whole ariary, ISO counts two decimals.
_NO_DECIMALS = frozenset({"MGA"})
_THREE_DECIMALS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})


def to_stripe(money: Money) -> int:
    """Return an amount in Stripe's smallest unit.

    Raises ValueError for one that Stripe cannot express.
    """
    shift = _shift(money.currency)
    minor = money.minor * 10**shift if shift >= 0 else _divided(money, 10**-shift)
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


def _divided(money: Money, by: int) -> int:
    if money.minor % by:
        raise ValueError(f"Stripe has no {money}: only whole {money.currency}")
    return money.minor // by
