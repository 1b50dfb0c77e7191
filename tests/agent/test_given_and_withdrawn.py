"""What a reply may say of a discount that was given and of a request that was withdrawn."""

from __future__ import annotations

import pytest

from mailagent.agent.reply.check import find_untrue
from mailagent.agent.reply.facts import Given, ReplyFacts, gather_facts
from mailagent.demo.reading import Language
from mailagent.demo.scripted_model import letter, phrase
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import Refund, RefundStatus
from tests.agent.test_reply_check import (
    PUBLIC_URL,
    day,
    kettle_order,
    kettle_refund,
    lamp_order,
)
from tests.cast import SUPPORT

TEN_PERCENT = GoodwillCode(
    code="K7MX-4PQR-9TWZ",
    order_id="W1001",
    conversation_id="c1",
    mail_id="m1",
    percent=10,
    policy_version=None,
    issued_at=day(11, 20),
    expires_at=day(12, 18),
)


def facts(*refunds: Refund, goodwill: tuple[GoodwillCode, ...] = ()) -> ReplyFacts:
    bought = [kettle_order(), lamp_order()]
    mailed = [day(11, 20)]
    return gather_facts(
        bought, refunds, Policy(), mailed, SUPPORT, PUBLIC_URL, Given(goodwill=goodwill)
    )


@pytest.mark.parametrize(
    "text",
    [
        "As an apology, you get 10% off your next order. The code stands below this text, and is"
        " valid until 18 December 2026.",
        "We would like to apologise with a 10 % discount on a later order; the code is below.",
        "As a gesture of goodwill, you will receive a discount of 10 percent on your next purchase.",
        "Als Entschuldigung erhalten Sie 10 % Rabatt auf eine spätere Bestellung. Den Code finden Sie"
        " unten in dieser Mail.",
        "Aus Kulanz schenken wir Ihnen 10 % Nachlass auf Ihre nächste Bestellung.",
        "Pour nous excuser, nous vous offrons une remise de 10 % sur une prochaine commande. Le code"
        " se trouve ci-dessous.",
        "Como disculpa, le damos un descuento del 10 % en un próximo pedido. El código está más abajo.",
    ],
)
def test_a_discount_may_be_told_once_it_was_given(text: str) -> None:
    assert find_untrue(text, facts(goodwill=(TEN_PERCENT,))) == ()
    assert find_untrue(text, facts()) != ()


@pytest.mark.parametrize(
    "text",
    [
        "You get 15% off your next order.",
        "You get ten percent off your next order.",
        "You get 10% off your next order, then another 20% off.",
        "You get 10% off your next order and a voucher.",
        "You get 10% off, and a replacement is on its way.",
        "We give you a discount of $10.",
        "We are making an exception for you: 10% off.",
        "You get 10% off until 19 December 2026.",
        "Sie erhalten 20 % Rabatt auf Ihre nächste Bestellung.",
        "Sie erhalten zwanzig Prozent Rabatt auf Ihre nächste Bestellung.",
        "Nous vous offrons une remise de 50 %.",
        "Le damos un descuento del 50 %.",
        "You get 10% off. Your refund of 49.99 USD was paid.",
    ],
)
def test_no_other_gift_hides_behind_a_discount(text: str) -> None:
    assert find_untrue(text, facts(goodwill=(TEN_PERCENT,))) != ()


WITHDRAWN = [
    "I have withdrawn your request for a refund of 49.99 USD for order W1001, as you wished. Nobody"
    " will decide on it any more, and no money will be sent.",
    "I have cancelled your refund request for order W1001.",
    "Your refund request for order W1001 is withdrawn. If you want it after all, write to us again.",
    "Ich habe Ihre Bitte um Rückzahlung von 49,99 USD für Bestellung W1001 zurückgezogen.",
    "Ihr Erstattungsantrag zu Bestellung W1001 wurde zurückgezogen.",
    "J'ai retiré votre demande de remboursement de 49,99 USD pour la commande W1001.",
    "He retirado su solicitud de reembolso del pedido W1001; no se enviará dinero.",
    *(phrase(language, "withdrawn", order_id="W1001") for language in Language),
]


@pytest.mark.parametrize("text", WITHDRAWN)
@pytest.mark.parametrize("status", [None, *RefundStatus], ids=str)
def test_a_withdrawal_may_be_told_only_once_it_is_on_record(
    text: str, status: RefundStatus | None
) -> None:
    known = facts() if status is None else facts(kettle_refund(status))
    assert (find_untrue(text, known) == ()) is (status is RefundStatus.WITHDRAWN)


def test_what_waits_again_is_not_told_as_withdrawn() -> None:
    again = kettle_refund(RefundStatus.AWAITING_APPROVAL)
    known = facts(kettle_refund(RefundStatus.WITHDRAWN), again)
    assert find_untrue("Your refund request is withdrawn.", known)


def test_the_withdrawal_of_one_order_is_not_that_of_another() -> None:
    known = facts(kettle_refund(RefundStatus.WITHDRAWN), kettle_refund(RefundStatus.PAID, "W1002"))
    assert find_untrue("Your refund request for order W1001 is withdrawn.", known) == ()
    assert find_untrue("Your refund request for order W1002 is withdrawn.", known)


@pytest.mark.parametrize(
    "text",
    [
        "Your request is withdrawn, and the 49.99 USD was sent back to you.",
        "Your request is withdrawn. We have refunded you all the same.",
        "I have cancelled your order W1001.",
    ],
)
def test_no_other_claim_hides_behind_a_withdrawal(text: str) -> None:
    assert find_untrue(text, facts(kettle_refund(RefundStatus.WITHDRAWN)))


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("withdrawn", RefundStatus.WITHDRAWN),
        ("too_late_approved", RefundStatus.APPROVED),
        ("too_late_paid", RefundStatus.PAID),
        ("nothing_waits", RefundStatus.REJECTED),
    ],
)
def test_what_the_demo_says_of_a_withdrawal_is_true(
    language: Language, key: str, status: RefundStatus
) -> None:
    said = letter(language, [phrase(language, key, order_id="W1001", amount="49.99 USD")])
    assert find_untrue(said, facts(kettle_refund(status))) == ()
