"""Languages: what cannot be checked is found, be it one short sentence; what can is left alone."""

from __future__ import annotations

import pytest

from mailagent.agent.reply.languages import is_readable

ENGLISH = "Hello Ada, thank you for your mail.\n\n{}\n\nKind regards\nshop.example"


@pytest.mark.parametrize(
    "sentence",
    [
        "Uw geld is terugbetaald.",
        "Wij hebben het voor u gedaan.",
        "Il rimborso è stato pagato.",
        "O seu dinheiro foi devolvido.",
        "Zwrot został wypłacony.",
        "Peníze byly vráceny.",
        "Pengarna är återbetalda.",
        "Pengene er på kontoen.",
        "Paranız iade edildi.",
        "Banii au fost returnați.",
        "Деньги возвращены.",
        "Τα χρήματα επιστράφηκαν.",
        "ご返金いたしました。",
        "钱已退还。",
        "환불되었습니다.",
        "تم رد المبلغ.",
        "Your rеfund is раid.",  # Cyrillic letters
        "Your refuńd is done.",
    ],
)
def test_one_sentence_of_another_language_in_an_english_mail_is_found(sentence: str) -> None:
    assert not is_readable(ENGLISH.format(sentence))


@pytest.mark.parametrize(
    "sentence",
    [
        "The kettle costs 49.99 USD.",
        "Kettle, mug, lamp.",
        "Eine Quittung folgt per Mail.",
        "Die brauchen wir nie.",
        "Il faut le numéro de la commande.",
        "Nada más por ahora.",
        "This is about Mr Dvořák in Łódź.",
        "Café, naïve, façade.",
    ],
)
def test_a_sentence_that_can_be_checked_is_left_alone(sentence: str) -> None:
    assert is_readable(ENGLISH.format(sentence))


def test_names_of_items_count_for_no_language() -> None:
    assert not is_readable(ENGLISH.format("The Zwrot is a lamp."))
    assert is_readable(ENGLISH.format("The Zwrot is a lamp."), {"zwrot"})
