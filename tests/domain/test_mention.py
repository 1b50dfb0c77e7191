"""An address is found whole or not at all: whoever has a longer or a shorter one is somebody else."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.redaction import Mention

DA, ALIAS = "da@example.com", "erased-1@erased.invalid"


@pytest.mark.parametrize(
    "text",
    [
        DA,
        "Mail of DA@Example.com.",
        "From: 'da@example.com' (Da)",
        "<da@example.com>: mailbox full",
        "mailto:da@example.com?subject=x",
        "https://shop.example/ops/customers/da@example.com",
        "bounce-1=da@example.com",
        "*da@example.com*, da@example.com - and more",
        "an odd one: da@example.com_",
        "> Ask da@example[.]com.",
    ],
)
def test_a_whole_address_is_found_and_replaced(text: str) -> None:
    mention = Mention(DA)
    assert mention.is_in(None, "", text)
    assert mention.core in text.lower()
    assert "da@" not in mention.replaced(text, ALIAS).lower()
    assert ALIAS in mention.replaced(text, ALIAS)


@pytest.mark.parametrize(
    "text",
    [
        "ada@example.com",
        "1da@example.com",
        "éda@example.com",
        "a.da@example.com",
        "a+da@example.com",
        "a_da@example.com",
        "a-da@example.com",
        "o'da@example.com",
        "da@example.com.au",
        "da@example.community",
        "da@example.com-shop.example",
        "da@exampleXcom",
        "a[.]da@example[.]com",
        "da@example[.]com[.]au",
    ],
)
def test_a_longer_address_is_somebody_elses(text: str) -> None:
    mention = Mention(DA)
    assert not mention.is_in(text)
    assert mention.replaced(text, ALIAS) == text


def test_capitals_outside_of_ascii_make_another_address() -> None:
    assert not Mention("kim@example.com").is_in("\u212aim@example.com")  # the Kelvin sign


def test_an_address_is_found_as_html_spells_it() -> None:
    text = "<td>o&#39;da@example.com</td>"
    assert not Mention(DA).is_in(text)
    assert Mention("o'da@example.com").replaced(text, ALIAS) == f"<td>{ALIAS}</td>"


def test_json_is_searched_to_its_bottom() -> None:
    body = {"to": [f"<{DA}>", "ada@example.com"], DA: {"paid": 1, "note": None}}
    assert Mention(DA).replaced_within(body, ALIAS) == {
        "to": [f"<{ALIAS}>", "ada@example.com"],
        ALIAS: {"paid": 1, "note": None},
    }
