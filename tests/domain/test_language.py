"""The language of a customer's mail is found where it can be told."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.language import find_language

WRITTEN = {
    "en": ["Where is my order?", "The kettle leaks. Refund it please.", "I want my money back"],
    "de": [
        "Mein Wasserkocher ist kaputt. Bitte erstatten Sie das Geld.",
        "Wo bleibt meine Bestellung W1001?",
        "Guten Tag, der Artikel kam defekt an.\n\nSent from my iPhone",
    ],
    "fr": [
        "Où est mon colis ?",
        "La bouilloire est arrivée cassée, je voudrais un remboursement.",
        "Je n'ai rien reçu",
    ],
    "es": [
        "¿Dónde está mi pedido?",
        "El hervidor llegó roto y quiero un reembolso",
        "Quiero devolver la tetera",
    ],
    "it": [
        "Il mio ordine non è arrivato, vorrei il rimborso.",
        "Dov'è il mio pacco?",
        "Buongiorno, ho ricevuto l'articolo rotto.",
    ],
    "nl": [
        "Hoi, mijn bestelling is kapot aangekomen, ik wil het geld terug.",
        "Waar blijft mijn pakket?",
        "Dank u wel voor uw snelle antwoord.",
    ],
    "pt": [
        "Olá, o meu pedido não chegou, por favor devolvam o dinheiro.",
        "Onde está a minha encomenda?",
        "Boa tarde, gostaria de devolver a chaleira.",
    ],
    "pl": [
        "Gdzie jest moja paczka?",
        "Dzień dobry, zamówienie W1001 nie dotarło.",
        "Proszę o zwrot pieniędzy.",
    ],
}
# Too short, in two languages at once, or in a language that has no catalogue.
NOT_TOLD = [
    "",
    "W1001",
    "Ok, danke!",
    "Kettle kaputt, refund?",
    "Dobrý den, vraťte mi prosím peníze.",
    "Hej, min vattenkokare är trasig och jag vill ha pengarna tillbaka",
    "返金してください。",
]


@pytest.mark.parametrize(
    ("language", "text"), [(each, text) for each, texts in WRITTEN.items() for text in texts]
)
def test_a_language_that_our_mails_are_written_in_is_found(language: str, text: str) -> None:
    assert find_language(text) == language


@pytest.mark.parametrize("text", NOT_TOLD)
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    assert find_language(text) is None
