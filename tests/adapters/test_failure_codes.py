"""Failure codes of gateways in our texts, as people of the shop read them."""

from __future__ import annotations

import pytest

from mailagent.adapters import gateways


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("re_1 came back (declined)", "re_1 came back (the customer's bank declined the refund)"),
        (
            "refunded elsewhere: 400 charge_already_refunded: Charge ch_1 has been refunded.",
            "refunded elsewhere: the payment was refunded already: Charge ch_1 has been refunded.",
        ),
        (
            "re_1 is failed: insufficient_funds; put that right",
            "re_1 is failed: the shop's balance at the gateway is too low; put that right",
        ),
        ("merchant_request", "the shop stopped it at the gateway"),
        ("400 bank_on_the_moon: no", "400 bank_on_the_moon: no"),
        ("declined by the bank", "declined by the bank"),
        ("not_declined", "not_declined"),
        ("", ""),
    ],
)
def test_known_codes_are_told_in_words_and_the_rest_stays(words: str, told: str) -> None:
    assert gateways.explain_codes(words, "stripe") == told
    assert bool(gateways.find_codes(words, "stripe")) == (told != words)
    assert gateways.explain_codes(words, "shopify, stripe") == told


def test_the_ledger_has_no_codes() -> None:
    assert gateways.explain_codes("declined", "ledger") == "declined"
    assert gateways.find_codes("declined", "ledger") == []
