"""The cost of model calls, by the prices in the settings at the time of each call; and the daily budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from operator import add

_PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_CENT = Decimal("0.01")
_KINDS = ("input", "cached", "output", "cache_write")


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Prices in US dollars for a million tokens. `cached`: input read from the cache. `cache_write`: input
    written to the cache; None if it costs the same as other input."""

    input: Decimal
    cached: Decimal
    output: Decimal
    cache_write: Decimal | None = None


def parse_prices(text: str) -> TokenPrices:
    """Parse `input,cached,output` or `input,cached,output,cache_write`. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (3, 4) or not all(_PRICE.fullmatch(part) for part in parts):
        raise ValueError(
            f"{text!r} is not three prices in USD for a million tokens, input, cached and output, "
            "or four with that of writing to the cache; write 0.75,0.075,4.50"
        )
    return TokenPrices(*(Decimal(part) for part in parts))


def cost_usd(
    prices: TokenPrices,
    input_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    cache_write_tokens: int = 0,
) -> Decimal:
    """Return the exact cost of a call in US dollars.

    `input_tokens` include cached tokens and tokens written to the cache (Responses API,
    `usage.input_tokens_details`). If a server reports more of these than input tokens, we ignore the excess.
    """
    cached = min(cached_tokens, input_tokens)
    put = min(cache_write_tokens, input_tokens - cached)
    fresh = input_tokens - cached - put
    put_price = prices.input if prices.cache_write is None else prices.cache_write
    read = fresh * prices.input + put * put_price + cached * prices.cached
    return (read + output_tokens * prices.output).scaleb(-6)


def micro_usd(prices: TokenPrices, usage: Mapping[str, int]) -> int:
    """Return the cost of a call in millionths of a US dollar, rounded half up. `usage`: numbers of tokens by
    input, cached, output and cache_write; a missing one is 0."""
    cost = cost_usd(prices, *(usage.get(kind, 0) for kind in _KINDS))
    return int(cost.scaleb(6).quantize(Decimal(1), ROUND_HALF_UP))


@dataclass(frozen=True, slots=True)
class Tokens:
    """The sums over some calls of one model. `input` includes `cached`. The fields that begin with `priced_`
    count only calls whose cost was recorded; `micro_usd` is that cost, in millionths of a US dollar."""

    calls: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    priced_calls: int = 0
    priced_input: int = 0
    priced_cached: int = 0
    priced_output: int = 0
    micro_usd: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*map(add, astuple(self), astuple(other)))


def tokens_of(
    calls: int, input_tokens: int, cached: int, output: int, micro_usd: int | None
) -> Tokens:
    """Return the sums of calls that cost `micro_usd` together; pass None if their cost was not recorded."""
    numbers = (calls, input_tokens, cached, output)
    return Tokens(*numbers) if micro_usd is None else Tokens(*numbers, *numbers, micro_usd)


def cost_of(use: Iterable[Tokens], prices: TokenPrices | None) -> Decimal | None:
    """Return the cost in US dollars: the recorded cost, and for calls without one the cost by `prices`. None if
    there are such calls and no prices."""
    total = Decimal(0)
    for tokens in use:
        total += Decimal(tokens.micro_usd).scaleb(-6)
        if tokens.calls and tokens.calls == tokens.priced_calls:
            continue
        if prices is None:
            return None
        total += cost_usd(
            prices,
            tokens.input - tokens.priced_input,
            tokens.cached - tokens.priced_cached,
            tokens.output - tokens.priced_output,
        )
    return total


def format_usd(amount: Decimal) -> str:
    """Return an amount of US dollars for people: to the cent, or with all digits below one cent."""
    if amount == 0:
        return "$0.00"
    if amount < _CENT:
        return f"${amount.normalize():f}"
    return f"${amount.quantize(_CENT, ROUND_HALF_UP):,f}"


# --- budget ---------------------------------------------------------------------------------------


_AMOUNT = re.compile(r"[0-9]{1,7}(\.[0-9]{1,2})?")

ALARM_PERCENT = 80


@dataclass(frozen=True, slots=True)
class DailyBudget:
    """The most that the model may cost a day (UTC), in US dollars. Once `usd` are spent, the agent answers no
    more mail that day. At `alarm_percent` of it, operators get a mail."""

    usd: Decimal
    alarm_percent: int = ALARM_PERCENT

    def is_near(self, cost: Decimal) -> bool:
        return cost * 100 >= self.usd * self.alarm_percent

    def is_spent(self, cost: Decimal) -> bool:
        return cost >= self.usd


def parse_amount(text: str) -> Decimal:
    """Parse an amount of US dollars, such as 25 or 12.50. Raises ValueError, also for zero."""
    if not _AMOUNT.fullmatch(text) or not Decimal(text):
        raise ValueError(f"{text[:40]!r} is no amount in USD, more than nothing; write 25 or 12.50")
    return Decimal(text)


def day_begins_at(now: datetime) -> datetime:
    """Return the start of the day (UTC)."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
