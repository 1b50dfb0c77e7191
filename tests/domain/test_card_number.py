"""Card numbers are masked; other long numbers are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.mail.redaction import mask_card_numbers
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
    "between",
    [
        *(
            ".",
            "/",
            "_",
            ",",
            "*",
            "|",
            "\t",
            "\n",
            "\r\n",
            " \n",
            "\n> ",
            "  ",
            "   ",
            ", ",
            " - ",
        ),
        *("\u2009", "\u2010", "\u2011", "\u2012", "\u2014", "\u2212", "\u3000"),
        *("\u00ad", "\u200b", "\u2060", "\ufeff", " \u200b"),
    ],
)
def test_card_numbers_are_masked_whatever_stands_between_their_groups(between: str) -> None:
    for hidden, last in ((["4111", "1111", "1111"], "1111"), (["2223", "0031", "2200"], "3222")):
        card = between.join([*hidden, last])
        masked = between.join(["****"] * 3 + [last])
        assert mask_card_numbers(f"card {card} please") == f"card {masked} please"
    amex = between.join(["3782", "822463", "10005"])
    assert mask_card_numbers(amex) == between.join(["****", "******", "*0005"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111 1111\n1111 1111", "**** ****\n**** 1111"),
        ("4111.1111.1111.1111, 12/27, 123", "****.****.****.1111, 12/27, 123"),
        ("1001, 4111, 1111, 1111, 1111", "1001, ****, ****, ****, 1111"),
        ("4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "*,*,*,*,*,*,*,*,*,*,*,*,1,1,1,1"),
        ("4111/1111/1111/1111, 5500/0000/0000/0004", "****/****/****/1111, ****/****/****/0004"),
        ("4111 1111 1111 1111\n1234 5678", "**** **** **** 1111\n1234 5678"),
        ("４１１１１１１１１１１１１１１１", "************１１１１"),
        ("４１１１ １１１１ １１１１ １１１１", "**** **** **** １１１１"),
        ("٤١١١١١١١١١١١١١١١", "************١١١١"),
        ("4111١١١١1111١١١١", "************١١١١"),
        ("4111111111111111\u00b2", "************1111\u00b2"),  # a footnote is no digit
    ],
)
def test_card_numbers_are_masked_as_people_write_them(text: str, expected: str) -> None:
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
        "4111    1111    1111    1111",  # four spaces
        "4111\n\n1111\n\n1111\n\n1111",  # paragraphs
        "4111 1111\n\n1111 1111",
        "4111,1111,1111,1112",  # the Luhn sum is off by one
        "1111, 1111, 1111, 1117",  # no network begins with 1, whatever the sum
        "2019\n2020\n2021\n2026",  # nor with 20
        "orders 1001, 1002, 1003, 1004",
        "orders 1001\n1002\n1003\n1004\n1005",
        "41111111.11111111",  # not the groups of a card
        "411111,1111111111",
        "3782.8224.6310.005",
        "49.99\n12.50\n1.499,00\n249.00",
        "call +49.30.1234567, +49/30/7654321",
        "IBAN DE89 3704 0044 0532 0130 00",
        "tracking 1Z 999 AA1 01 2345 6784",
        "2026-11-20, 2026/11/21, 20.11.2026",
        "paid 1,499.00 USD on 2026-11-20",
        "",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert mask_card_numbers(text) == text


@given(st.text(alphabet="0123456789 -x,\n\u0664\u200b", max_size=60))
def test_masking_changes_digits_only_and_settles(text: str) -> None:
    masked = mask_card_numbers(text)
    assert len(masked) == len(text)
    assert all(
        new == old or (new == "*" and old.isdecimal())
        for new, old in zip(masked, text, strict=True)
    )


@given(st.text())
def test_no_text_raises(text: str) -> None:
    mask_card_numbers(text)


@pytest.mark.parametrize(
    "piece",
    [
        *("4", "4 ", "4111 ", "4111 1111 1111 1111 ", "1-", " 4"),
        *("4, ", "4111,\n", "4111,,,", ",", "\n", "\u0664", "3782 \n822463", "4111.1111.1111.111"),
    ],
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    assert_linear(mask_card_numbers, piece, 20_000)
