"""Signatures go, and what a customer writes below one stays."""

from __future__ import annotations

import pytest

from mailagent.adapters.mime.reply_text import new_text
from tests.adapters.quotes import ATTRIBUTIONS, NEW, OURS, quoted

QUOTE = f"{ATTRIBUTIONS['gmail en']}\n{quoted(OURS)}"


@pytest.mark.parametrize(
    "below",
    [
        "-- \nAda Example\n\nPS: My order is W1001.",
        "-- \nAda Example\nP.S. My order is W1001",
        "-- \nAda Example\n\nOh, and the mug is chipped too.",
        "-- \nAda Example\n\nW1001",
        "--\nMy order number is W1001, by the way.",
        "--\nPlease call me on 020 7946 0000",
        "-- \nAda Example\n\nmy new address is ada@example.org",
        "Sent by mail last week, no app needed.",
    ],
)
def test_what_a_customer_writes_below_a_signature_is_kept(below: str) -> None:
    assert new_text(f"{NEW}\n\n{below}") == f"{NEW}\n\n{below}"


@pytest.mark.parametrize("signature", ["-- \nAda Example", "--\nAda", "Sent from my iPhone"])
def test_an_answer_below_the_quote_is_no_part_of_the_signature_above_it(signature: str) -> None:
    body = f"{NEW}\n\n{signature}\n\n{QUOTE}\n\nMy order is W1001."
    assert new_text(body).split() == f"{NEW}\nMy order is W1001.".split()


@pytest.mark.parametrize(
    "addition",
    [
        "-- \nAda Example\nTel. +44 20 7946 0000\n\nExample Ltd, https://example.com",
        "-- \nAda\n\nThis e-mail is confidential. If you are not the intended recipient, delete it.",
        "=====",
        "Gesendet von Outlook für Android<https://aka.example/x>",
        "Sendt fra min iPhone",
        "iPhone'umdan gönderildi",
        "나의 iPhone에서 보냄",
        "Odesláno z iPhonu",
        "Outlook for Android",
    ],
)
def test_what_programs_and_signatures_add_goes(addition: str) -> None:
    assert new_text(f"{NEW}\n\n{addition}") == NEW
