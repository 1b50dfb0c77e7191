"""What the model costs: exact, from three prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mailagent.domain.operations.model_cost import (
    Tokens,
    cost_of,
    cost_usd,
    format_usd,
    micro_usd,
    parse_prices,
    tokens_of,
)

PRICES = parse_prices("0.75,0.075,4.50")


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        ((0, 0, 0), "0"),
        ((1_000_000, 0, 0), "0.75"),
        ((1_000_000, 1_000_000, 0), "0.075"),
        ((0, 0, 1_000_000), "4.5"),
        ((1_234, 1_000, 56), "0.0005025"),
        ((10, 20, 0), "0.00000075"),
        ((3, 0, 0), "0.00000225"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_cached_tokens_are_among_those_read_and_cheaper(
    tokens: tuple[int, int, int], cost: str
) -> None:
    assert cost_usd(PRICES, *tokens) == Decimal(cost)


@pytest.mark.parametrize(
    ("prices", "tokens", "cost"),
    [
        ("1,0.1,6,1.25", (1_000, 400, 0, 500), "0.000765"),
        ("1,0.1,6", (1_000, 400, 0, 500), "0.00064"),  # as what is read
        ("1,0.1,6,0", (1_000, 400, 0, 500), "0.00014"),
        ("1,0.1,6,1.25", (1_000, 400, 0, 5_000), "0.00079"),  # no more than was read
        ("1,0.1,6,1.25", (0, 0, 0, 5), "0"),
    ],
)
def test_what_is_put_into_the_cache_may_have_a_price_of_its_own(
    prices: str, tokens: tuple[int, int, int, int], cost: str
) -> None:
    assert cost_usd(parse_prices(prices), *tokens) == Decimal(cost)


@pytest.mark.parametrize(
    ("usage", "recorded"),
    [
        ({}, 0),
        ({"input": 1, "output": 1}, 7),
        ({"input": 5}, 5),
        ({"cached": 5, "input": 5}, 1),  # a half is rounded up
        ({"cached": 4, "input": 4}, 0),
        ({"input": 8, "cache_write": 8}, 10),
    ],
)
def test_the_cost_of_a_call_is_recorded_in_millionths(usage: dict[str, int], recorded: int) -> None:
    assert micro_usd(parse_prices("1,0.1,6,1.25"), usage) == recorded


RECORDED = tokens_of(2, 1_000_000, 0, 0, 5_000_000)
UNRECORDED = tokens_of(1, 1_000_000, 500_000, 0, None)


@pytest.mark.parametrize(
    ("tokens", "with_prices", "without"),
    [
        (Tokens(), "0", None),
        (RECORDED, "5", "5"),
        (UNRECORDED, "0.4125", None),
        (RECORDED + UNRECORDED, "5.4125", None),
    ],
)
def test_what_is_on_record_is_not_priced_again(
    tokens: Tokens, with_prices: str, without: str | None
) -> None:
    assert cost_of([tokens], PRICES) == Decimal(with_prices)
    assert cost_of([tokens], None) == (without and Decimal(without))


@pytest.mark.parametrize(
    "text",
    ["", "1,2", "1,2,3,4,5", "1,2,3,x", "1,2,x", "-1,2,3", "1e3,2,3", "1,,3", "1,2,3.1234567"],
)
def test_what_is_not_three_prices_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 0\.75,0\.075,4\.50"):
        parse_prices(text)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.0005025", "$0.0005025"),
        ("0.00000075", "$0.00000075"),
        ("0.0099999", "$0.0099999"),
        ("0.01", "$0.01"),
        ("1.005", "$1.01"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_costs_are_shown_to_the_cent_and_small_ones_whole(amount: str, shown: str) -> None:
    assert format_usd(Decimal(amount)) == shown
