"""What the model costs: exact, from three prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mailagent.domain.cost import cost_usd, format_usd, parse_prices

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
    "text", ["", "1,2", "1,2,3,4", "1,2,x", "-1,2,3", "1e3,2,3", "1,,3", "1,2,3.1234567"]
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
