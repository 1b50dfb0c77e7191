"""The same true and false sentences in each language: figures, order numbers and claims are read in all."""

from __future__ import annotations

import pytest

from mailagent.agent.reply.check import find_untrue
from tests.agent.test_reply_check import CUSTOMER_WORDS, facts_in

# Refunded: 49.99 USD of order W1001, which was placed on 1 and delivered on 4 November 2026.
TRUE = {
    "en": [
        "Your order W1001 was delivered on 4 November 2026.",
        "Your order W1001 was delivered on November 4.",
        "We have refunded 49.99 USD for order W1001.",
        "The refund of $49.99 was paid.",
    ],
    "de": [
        "Ihre Bestellung W1001 wurde am 4. November 2026 geliefert.",
        "Ihre Bestellung W1001 wurde am 04.11.2026 geliefert.",
        "Wir haben Ihnen 49,99 USD für die Bestellung W1001 erstattet.",
        "Die Erstattung von 49,99\xa0$ wurde ausgezahlt.",
    ],
    "fr": [
        "Votre commande W1001 a été livrée le 4 novembre 2026.",
        "Vous avez passé la commande W1001 le 1er novembre 2026.",
        "Nous vous avons remboursé 49,99 USD pour la commande W1001.",
        "Le remboursement de 49,99\xa0$US a été effectué.",
    ],
    "es": [
        "Su pedido W1001 se entregó el 4 de noviembre de 2026.",
        "Su pedido W1001 se entregó el 04/11/2026.",
        "Le hemos reembolsado 49,99 USD del pedido W1001.",
        "El reembolso de 49,99\xa0US$ se ha pagado.",
    ],
}
FALSE = {
    "en": [
        ("paid", "Your order W1001 was delivered on 8 November 2026."),
        ("paid", "We have refunded 59.99 USD for order W1001."),
        ("paid", "Your order W4711 has arrived."),
        ("none", "We have refunded your money."),
        ("none", "Your refund is on its way."),
        ("awaiting_approval", "Your refund has been approved."),
        ("none", "You get 10% off your next order."),
    ],
    "de": [
        ("paid", "Ihre Bestellung W1001 wurde am 8. November 2026 geliefert."),
        ("paid", "Wir haben Ihnen 59,99 USD für die Bestellung W1001 erstattet."),
        ("paid", "Ihre Bestellung W4711 ist angekommen."),
        ("none", "Wir haben Ihnen das Geld erstattet."),
        ("none", "Ihre Erstattung ist unterwegs."),
        ("awaiting_approval", "Ihre Erstattung wurde genehmigt."),
        ("none", "Sie erhalten 10 % Rabatt auf Ihre nächste Bestellung."),
    ],
    "fr": [
        ("paid", "Votre commande W1001 a été livrée le 8 novembre 2026."),
        ("paid", "Nous vous avons remboursé 59,99 USD pour la commande W1001."),
        ("paid", "Votre commande W4711 est arrivée."),
        ("none", "Nous vous avons remboursé."),
        ("none", "Votre remboursement est en route."),
        ("awaiting_approval", "Votre remboursement a été approuvé."),
        ("none", "Vous bénéficiez de 10 % de remise sur votre prochaine commande."),
    ],
    "es": [
        ("paid", "Su pedido W1001 se entregó el 8 de noviembre de 2026."),
        ("paid", "Le hemos reembolsado 59,99 USD del pedido W1001."),
        ("paid", "Su pedido W4711 ha llegado."),
        ("none", "Le hemos reembolsado el dinero."),
        ("none", "Su reembolso está en camino."),
        ("awaiting_approval", "Su reembolso ha sido aprobado."),
        ("none", "Le damos un 10 % de descuento en su próximo pedido."),
    ],
}


def test_every_language_has_as_many_sentences_as_english() -> None:
    assert {len(each) for each in TRUE.values()} == {len(TRUE["en"])}
    assert {len(each) for each in FALSE.values()} == {len(FALSE["en"])}


@pytest.mark.parametrize("text", [text for each in TRUE.values() for text in each])
def test_a_true_sentence_passes_in_every_language(text: str) -> None:
    assert find_untrue(text, facts_in("paid"), CUSTOMER_WORDS) == ()


@pytest.mark.parametrize(
    ("state", "text"), [pair for each in FALSE.values() for pair in each], ids=str
)
def test_a_false_sentence_is_found_out_in_every_language(state: str, text: str) -> None:
    assert find_untrue(text, facts_in(state), CUSTOMER_WORDS)
