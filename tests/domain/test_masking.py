"""Errors are masked kind by kind: what helps to repair stays, what is secret or a person's goes."""

from __future__ import annotations

import pytest

from mailagent.domain.masking import mask
from tests.growth import assert_linear

CARD, NO_CARD = "4111 1111 1111 1111", "4111 1111 1111 1112"
LOGIN = "a" * 21 + "B" * 21 + "7"


@pytest.mark.parametrize(
    "text",
    [
        "KeyError in mailagent.workflows.steps.refund.payment:288: 'amount'",
        "'NoneType' object has no attribute 'amount'",
        "invalid literal for int() with base 10: '12 EUR'",
        'null value in column "amount_minor" violates not-null constraint "ck_refunds_amount_minor"',
        'duplicate key value violates unique constraint "pk_outbound_mails"',
        "refund refund_01m87gdvbphctenq5w4skzacah of order W1001 could not be paid in 40 attempts",
        "answered 402: balance_insufficient, request req_1a2B3c4D5e",
        "https://api.stripe.example/v1/refunds cannot be reached",
        "cannot read Ada's mail, can't go on",
        f"reference {NO_CARD} is unknown",
        "conversation-01m87gdvbphctenq5w4skzacah-fork-12 moved on",
    ],
)
def test_what_helps_to_repair_stays(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no mail for ada@example.com here", "no mail for [address] here"),
        ("no mail for <ada+shop@mail.example.com>, sorry", "no mail for <[address]>, sorry"),
        ("no mail for 'ada@example.com'", "no mail for '[address]'"),
        ("no mail for jürgen@bücher.example", "no mail for [address]"),
        ('to "ada l"@example.com refused', "to [address] refused"),
        ("GET /orders/ada%40example.com", "GET /orders/[address]"),
        ("case+abcdefghijklmnop@shop.example bounced", "[address] bounced"),
    ],
)
def test_addresses_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "Incorrect API key provided: sk-proj-ab12***********wxyz.",
            "Incorrect API key provided: [key].",
        ),
        ("No such key sk_live_51HabcDEF", "No such key [key]"),
        ("bad rk_test_51HabcDEF", "bad [key]"),
        ("bad whsec_abcdefgh", "bad [key]"),
        (f"bad shpat_{'0a1b' * 8}", "bad [key]"),
        (f"bad ck_{'0a1b' * 10}", "bad [key]"),
        ("bad SG.abcdefgh.ijkl-mnop", "bad [key]"),
        ("header Bearer abcdefgh12345678 refused", "header Bearer [key] refused"),
        ("bad eyJhbGciOi.eyJzdWIi.c2ln", "bad [key]"),
        ("password=hunter2 refused", "password=[key] refused"),
        ('{"api_key": "hunter2hunter2"}', '{"api_key": "[key]"}'),
        (f"secret {LOGIN} unknown", "secret [key] unknown"),
        (f"hash {'0123456789abcdef' * 2} unknown", "hash [key] unknown"),
    ],
)
def test_keys_and_tokens_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://shop.example/a?token=x&b=1 failed", "https://shop.example/a?[query] failed"),
        ("'https://shop.example/a#secret'", "'https://shop.example/a?[query]'"),
        (f"at https://shop.example/ops/login/{LOGIN}", "at https://shop.example/ops/login/…"),
        ("at /approvals/WyJhcHByb3ZhbF8wMSJd.abc", "at /approvals/…"),
        ("postgresql://me:pw@db:5432/shop is away", "postgresql://[login]@db:5432/shop is away"),
    ],
)  # fmt: skip
def test_links_keep_their_place_and_lose_what_acts(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"card {CARD} refused", "card **** **** **** 1111 refused"),
        ("card 4111111111111111 refused", "card ************1111 refused"),
        ("code K7MX-4PQR-9TWZ is used", "code [code] is used"),
    ],
)
def test_card_numbers_and_discount_codes_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cannot read 'my name is Ada'", "cannot read '[4 words]'"),
        ('cannot read "my name is Ada" as a date', 'cannot read "[4 words]" as a date'),
        ("cannot read 'I can't pay' now", "cannot read '[3 words]' now"),
        ("cannot read 'Dear shop, my", "cannot read '[3 words]"),
        ("Key (subject)=(About my knee) exists", "Key (subject)=([3 words]) exists"),
    ],
)
def test_quoted_sentences_are_a_person_s_text(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_a_masked_text_stays_as_it_is() -> None:
    text = f"password=hunter2 for ada@example.com, {CARD}, at https://a:b@shop.example/?x=1"
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "piece", ["a@", "'a ", "http://a", "aB3-", "token=", '"', "a.b", "%40", "sk-a."]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    assert_linear(mask, piece, 1_000)
