"""Goodwill codes: how they may be typed, when they are good, and what comes of using one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent.domain.refunds.goodwill import (
    GoodwillCode,
    Redeemed,
    decide_redemption,
    hide_code_shapes,
    hide_codes,
    normalise_code,
)
from tests.cast import NOW

CODE = GoodwillCode(
    code="K7MX-4PQR-9TWZ",
    order_id="W1001",
    conversation_id="c",
    mail_id="m",
    percent=10,
    policy_version=None,
    issued_at=NOW,
    expires_at=NOW + timedelta(days=90),
)
USED = replace(CODE, used_at=NOW, used_on="W2")


@pytest.mark.parametrize(
    "typed",
    ["K7MX-4PQR-9TWZ", "k7mx4pqr9twz", " k7mx 4pqr 9twz ", "K7MX–4PQR—9TWZ", "K7-MX4P-QR9TWZ"],
)
def test_a_code_is_known_however_it_is_typed(typed: str) -> None:
    assert normalise_code(typed) == CODE.code


@pytest.mark.parametrize(
    "typed", ["", "-", "K7MX-4PQR-9TW", "K7MX-4PQR-9TWZZ", "K7MX-4PQR-9TW0", "K7MX-4PQR-9TW\x00"]
)
def test_what_cannot_be_a_code_is_none(typed: str) -> None:
    assert normalise_code(typed) == ""


@pytest.mark.parametrize(
    ("code", "order_id", "seconds", "outcome", "words"),
    [
        (CODE, "W2", -1, Redeemed.NOW, ""),
        (CODE, "W2", 0, Redeemed.TOO_LATE, "expired on 2027-02-18"),
        (USED, "W2", -1, Redeemed.BEFORE_ON_SAME, ""),
        (USED, "W2", 1, Redeemed.BEFORE_ON_SAME, ""),
        (USED, "W3", -1, Redeemed.BEFORE_ON_OTHER, "was used on 2026-11-20, on order W2"),
        (None, "W2", -1, Redeemed.UNKNOWN, "no such code"),
    ],
)
def test_a_code_is_good_for_one_order_until_its_date(
    code: GoodwillCode | None, order_id: str, seconds: int, outcome: Redeemed, words: str
) -> None:
    then = CODE.expires_at + timedelta(seconds=seconds)
    redemption = decide_redemption(code, order_id, then)
    assert redemption.outcome is outcome
    assert words in redemption.words
    assert bool(words) is bool(redemption.words)


@pytest.mark.parametrize("typed", ["K7MX-4PQR-9TWZ", "k7mx4pqr9twz", "K7MX 4PQR 9TWZ"])
def test_a_code_is_hidden_however_it_is_quoted(typed: str) -> None:
    assert hide_codes(f"My code {typed}!", (CODE.code,)) == "My code [code]!"
    assert hide_codes(f"My code {typed}!", ()) == f"My code {typed}!"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("K7MX-4PQR-9TWZ", "[code]"),
        ("code k7mx 4pqr 9twz!", "code [code]!"),
        ("K7MX4PQR9TWZ", "[code]"),
        ("KAMX\u2013PPQR\u2013TTWZ", "[code]"),
        ("they gave tape 5", "they gave tape 5"),
        ("transference", "transference"),
        ("order W2001, 20 November", "order W2001, 20 November"),
    ],
)
def test_a_line_of_a_list_loses_whatever_may_be_a_code(text: str, shown: str) -> None:
    assert hide_code_shapes(text) == shown
