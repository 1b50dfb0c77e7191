"""Convert amounts to Stripe's smallest unit and back: https://docs.stripe.com/currencies."""

from __future__ import annotations

from mailagent.domain.money import Money, exponent

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
