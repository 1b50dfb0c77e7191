"""Card numbers are masked; other long numbers are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.card_number import mask_card_numbers
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111111111111111", "************1111"),
        ("4111 1111 1111 1111", "**** **** **** 1111"),
        ("4111-1111-1111-1111", "****-****-****-1111"),
        ("4111\u00a01111\u00a01111\u00a01111", "****\u00a0****\u00a0****\u00a01111"),
        ("378282246310005", "***********0005"),
        ("3782 822463 10005", "**** ****** *0005"),
        ("30569309025904", "**********5904"),
        ("4222222222222", "*********2222"),  # 13 digits, the shortest
        ("6304000000000000000", "***************0000"),  # 19 digits, the longest
        ("card:4111111111111111.", "card:************1111."),
        ("Visa4111111111111111", "Visa************1111"),
        ("4111 1111 1111 1111 12/27 123", "**** **** **** 1111 12/27 123"),
        ("order 1001 4111 1111 1111 1111", "order 1001 **** **** **** 1111"),
        ("4111111111111111 1227 123", "************1111 1227 123"),
        (
            "4111 1111 1111 1111 and 5500 0000 0000 0004",
            "**** **** **** 1111 and **** **** **** 0004",
        ),
    ],
)
def test_card_numbers_keep_their_last_four_digits_only(text: str, expected: str) -> None:
    assert mask_card_numbers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",  # the Luhn sum is off by one
        "411111111111",  # 12 digits
        "42222222222220000000",  # 20 digits
        "orders 1001 1002 1003 1004 1005",
        "order W1234567890123",
        "call +49 30 1234567 before 17:30",
        "4111  1111  1111  1111",
        "4111\n1111\n1111\n1111",
        "paid 1,499.00 USD on 2026-11-20",
        "",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert mask_card_numbers(text) == text


@given(st.text(alphabet="0123456789 -x", max_size=60))
def test_masking_changes_digits_only_and_settles(text: str) -> None:
    masked = mask_card_numbers(text)
    assert len(masked) == len(text)
    assert all(
        new == old or (new == "*" and old.isdigit()) for new, old in zip(masked, text, strict=True)
    )


@given(st.text())
def test_no_text_raises(text: str) -> None:
    mask_card_numbers(text)


@pytest.mark.parametrize("piece", ["4", "4 ", "4111 ", "4111 1111 1111 1111 ", "1-", " 4"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    assert_linear(mask_card_numbers, piece, 20_000)
