"""What a call of the model costs, by the prices of a setting: exact, and never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

_PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars for a million tokens: read, read again from the provider's cache, written."""

    input: Decimal
    cached: Decimal
    output: Decimal


def parse_prices(text: str) -> TokenPrices:
    """Return the prices that a setting names as `input,cached,output`. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(_PRICE.fullmatch(part) for part in parts):
        raise ValueError(
            f"{text!r} is not three prices in USD for a million tokens, input, cached and output; "
            "write 0.75,0.075,4.50"
        )
    return TokenPrices(*(Decimal(part) for part in parts))


def cost_usd(
    prices: TokenPrices, input_tokens: int, cached_tokens: int, output_tokens: int
) -> Decimal:
    """Return what a call cost in US dollars, exactly.

    Cached tokens are among the input tokens (Responses API, `usage.input_tokens_details`); a server
    that counts more of them than it read is charged for what was read.
    """
    cached = min(cached_tokens, input_tokens)
    fresh = input_tokens - cached
    millionths = fresh * prices.input + cached * prices.cached + output_tokens * prices.output
    return millionths.scaleb(-6)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What some calls of one model took; `cached` ones are among the `input` ones."""

    calls: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.calls + other.calls,
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
        )


def plus(one: Mapping[str, Tokens], other: Mapping[str, Tokens]) -> dict[str, Tokens]:
    """Return two uses together, each by the model's name."""
    return {name: one.get(name, Tokens()) + other.get(name, Tokens()) for name in {**one, **other}}


def cost_of(
    use: Mapping[str, Tokens], prices_of: Callable[[str], TokenPrices | None]
) -> Decimal | None:
    """Return what a use cost, each model by its own prices; None if one that was used has none."""
    total = Decimal(0)
    for model, tokens in use.items():
        prices = prices_of(model)
        if prices is None:
            return None
        total += cost_usd(prices, tokens.input, tokens.cached, tokens.output)
    return total


def format_usd(amount: Decimal) -> str:
    """Return an amount as people read it: to the cent, and of less than one cent what there is of it."""
    if amount == 0:
        return "$0.00"
    if amount < _CENT:
        return f"${amount.normalize():f}"
    return f"${amount.quantize(_CENT, ROUND_HALF_UP):,f}"
