"""Spelling: a word means the same however it is dressed up, and honest words stay as they are."""

from __future__ import annotations

import pytest

from mailagent.agent.reply.spelling import unmask


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("re\u200bfunded", "refunded"),
        ("re\u00adfunded", "refunded"),
        ("ｒｅｆｕｎｄｅｄ", "refunded"),
        ("re**fund**ed", "refunded"),
        ("re-funded", "refunded"),
        ("re funded", "refunded"),
        ("r e f u n d", "refund"),
        ("R.E.F.U.N.D.E.D", "REFUNDED"),
        ("p-a-i-d", "paid"),
        ("pa1d", "paid"),
        ("pàid", "paid"),
        ("zurück gezahlt", "zurückgezahlt"),
        ("zurueckgezahlt", "zurückgezahlt"),
        ("rembourse", "remboursé"),
    ],
)
def test_a_disguised_word_is_read_as_what_it_is(written: str, plain: str) -> None:
    assert unmask(written) == plain


@pytest.mark.parametrize(
    "text",
    [
        "Hello Ada, e.g. the kettle, z. B. die Tasse.",
        "Order W1001, item K1, 49.99 USD, 4 November 2026.",
        "Wir hätten gern gewusst, ob Sie die Lampe möchten.",
        "Je vous confirme que la commande est livrée.",
        "awaiting_approval",
        "https://shop.example/re-order?x=1",
    ],
)
def test_honest_words_stay_as_they_are(text: str) -> None:
    assert unmask(text) == text
