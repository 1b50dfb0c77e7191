"""Address fields, honest, broken and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.address_list import Mailbox, parse_addresses
from tests.growth import assert_linear


def one(name: str, address: str) -> list[Mailbox]:
    return [Mailbox(name, address)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Ada <ada@example.com>", one("Ada", "ada@example.com")),
        ("ada@example.com", one("", "ada@example.com")),
        ("Ada Example<Ada@Example.com>", one("Ada Example", "ada@example.com")),
        ('"Example, Ada" <ada@example.com>', one("Example, Ada", "ada@example.com")),
        ("Example, Ada <ada@example.com>", one("Ada", "ada@example.com")),
        ('"\\"Ada\\"" <ada@example.com>', one('"Ada"', "ada@example.com")),
        ("=?utf-8?q?J=C3=BCrgen=2C_X?= <j@example.net>", one("Jürgen, X", "j@example.net")),
        ("ada@example.com (Ada)", one("", "ada@example.com")),
        ("Ada (of (London)) <ada@example.com>", one("Ada", "ada@example.com")),
        ('"ada@example.com" <ada@example.com>', one("ada@example.com", "ada@example.com")),
        ("ada@example.com <ada@example.com>", one("ada@example.com", "ada@example.com")),
        ("<mailto:ada@example.com>", one("", "ada@example.com")),
        ("<@relay.example:ada@example.com>", one("", "ada@example.com")),
        (
            "Team: Ada <ada@example.com>, grace@example.org;",
            [Mailbox("Ada", "ada@example.com"), Mailbox("", "grace@example.org")],
        ),
        ("undisclosed-recipients:;", []),
        ("MAILER-DAEMON", []),
        ("<>", []),
        ("", []),
    ],
)
def test_plain_fields_are_read(value: str, expected: list[Mailbox]) -> None:
    assert list(parse_addresses(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "ada@example.com <mallory@evil.example>",
        "ada@example.com, <mallory@evil.example>",
        "<ada@example.com> <mallory@evil.example>",
        "<mallory@evil.example> ada@example.com",
        "mallory@evil.example:<ada@example.com>",
        '"Ada <ada@example.com>, <mallory@evil.example>',
        "Ada (<ada@example.com>, <mallory@evil.example>",
        "ada@example.com mallory@evil.example",
        '"x\\" <ada@example.com>',
        "Ada <ada@example.com",
        "<ada@example.com>x",
        "<ada(x)@example.com>",
    ],
)
def test_fields_that_can_be_read_in_two_ways_prove_nothing(value: str) -> None:
    found = parse_addresses(value)
    assert len(found) != 1 or not found[0].plain


def test_a_display_name_is_never_the_address() -> None:
    assert list(parse_addresses('"help@shop.example" <mallory@evil.example>')) == one(
        "help@shop.example", "mallory@evil.example"
    )


@given(st.text())
def test_no_text_raises(value: str) -> None:
    parse_addresses(value)


@pytest.mark.parametrize(
    "piece",
    ["(", ")", "<", '"', '\\"', '"\\', ",", "a@b,", "<a@b>", ":", "a@b:", '( "', "<(@", ";"],
)
def test_hostile_fields_take_linear_time(piece: str) -> None:
    assert_linear(parse_addresses, piece, 5_000)
