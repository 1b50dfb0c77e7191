"""What a composed reply says: facts from the rows, words that state nothing, and the record below."""

from __future__ import annotations

import random

import pytest

from mailagent.demo.scripted_model import Fact
from mailagent.mailers.facts import _OF_ORDER, _OF_SHOP
from tests.cast import ADA, MALLORY, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, wait_until
from tests.tool_calls import refund_of, says, says_text

# What the words of a reply may be does not depend on the database.
pytestmark = ONE_DATABASE

BINDING = "Only what stands here is binding."


def test_a_fact_is_told_as_it_is_when_the_mail_is_written(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [
        refund_of("W1001", ("K1", None)),
        says("Hello Ada, I am sorry that the kettle arrived broken.", Fact("refund/W1001")),
    ]
    busy_shop.write("My kettle of W1001 is broken")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "I am sorry that the kettle arrived broken." in told
    assert "Your refund of $49.99 for order W1001" in told
    record = told[told.index("On record for order W1001") :]
    assert "Asked for: $49.99" in record
    assert BINDING in record


def test_the_record_stands_below_a_lie_that_got_through(
    busy_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailagent.mailers.letter.find_statements", lambda *_: [])
    busy_shop.stock(order())
    busy_shop.faults.openai.append(says("The money is with you.", Fact("order/W1001")))
    busy_shop.write("Where is my money for W1001?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert told.index("The money is with you.") < told.index("No refund was asked for")


def test_sentences_that_may_state_something_are_left_out_of_a_reply_with_facts(
    busy_shop: Harness,
) -> None:
    busy_shop.stock(order())
    words = "Thank you for your mail. The money is with you. Does the box look damaged?"
    busy_shop.faults.openai.append(says("Hello Ada,", words, Fact("order/W1001")))
    busy_shop.write("Where is W1001?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    kept = "Hello Ada,\n\nThank you for your mail. Does the box look damaged?\n\n"
    assert told.startswith(f"{kept}Order W1001 was delivered on")


def test_a_question_that_may_state_something_is_composed_again_and_then_left_out(
    busy_shop: Harness,
) -> None:
    busy_shop.stock(order())
    lie = says("Hello Ada,", "Have you seen the money we sent?", Fact("order/W1001"))
    busy_shop.faults.openai += [lie, lie]
    busy_shop.write("Where is W1001?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert told.startswith("Hello Ada,\n\nOrder W1001 was delivered on")
    assert len(busy_shop.rows("SELECT 1 FROM model_calls")) == 2


def test_words_without_a_fact_are_not_left_out(busy_shop: Harness) -> None:
    lie = says("Hello Ada,", "The money is with you.")
    busy_shop.faults.openai += [lie, says("Hello Ada, which order?")]
    busy_shop.write("Where is my order?")
    assert busy_shop.wait_for_mails(ADA)[0].text.startswith("Hello Ada, which order?")


def test_a_mail_about_no_order_has_no_record(busy_shop: Harness) -> None:
    busy_shop.faults.openai.append(says("Hello Ada, which order is it about?"))
    busy_shop.write("Hello")
    assert "On record" not in busy_shop.wait_for_mails(ADA)[0].text


NOT_ON_RECORD = (
    *("refund/W1002", "refund/", "order", "paid/W1001", "declined/W1001", "goodwill/W1001", "\x00"),
)


def test_what_is_not_on_record_cannot_be_named(busy_shop: Harness) -> None:
    busy_shop.stock(order(), order("W1002", customer={"email": MALLORY, "name": "M"}))
    for number, fact_id in enumerate(NOT_ON_RECORD, 1):
        which = says("Hello Ada, which order?")
        busy_shop.faults.openai += [says("Hello Ada,", Fact(fact_id)), which]
        busy_shop.write("Hello", subject=f"Mail {number}")
        told = busy_shop.wait_for_mails(ADA, number)
        assert told[-1].text.startswith("Hello Ada, which order?"), fact_id


def test_an_answer_that_is_no_composition_is_asked_for_again(busy_shop: Harness) -> None:
    busy_shop.faults.openai += [says_text("Your refund was paid."), says("Hello Ada, which order?")]
    busy_shop.write("Hello")
    (told,) = busy_shop.wait_for_mails(ADA)
    assert "paid" not in told.text


def test_a_model_that_composes_at_random_states_nothing_that_no_row_bears(
    busy_shop: Harness,
) -> None:
    busy_shop.stock(order(), order("W1002", customer={"email": MALLORY, "name": "M"}))
    chance = random.Random(23)
    kinds = [*_OF_ORDER, *_OF_SHOP, "no_order", "paid", ""]
    subjects = ["", "/W1001", "/W1002", "/W9999", "/w1001", "//", "/" + "9" * 400]
    words = [
        "Hello Ada,",
        "Your money is there.",
        "You get 5 EUR.",
        "Kind regards",
        "W1002 was paid",
    ]
    for number in range(20):
        parts = [
            Fact(chance.choice(kinds) + chance.choice(subjects))
            if chance.random() < 0.6
            else chance.choice(words)
            for _ in range(chance.randint(1, 4))
        ]
        busy_shop.faults.openai[:] = [says(*parts), says(*parts), says(*parts)]
        busy_shop.write("Where is W1001?", subject=f"Mail {number}")
        wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    for mail in busy_shop.mails_to(ADA):
        assert "money is there" not in mail.text
        assert "EUR" not in mail.text
        for false in ("was paid on", "is approved", "W1002 of", "W1002 was delivered", "voucher"):
            assert false not in mail.text


# By language. There is no catalogue for Swedish: its facts are in English.
HELLO: dict[str, str] = {
    "de": "Guten Tag, danke für Ihre Nachricht.",
    "fr": "Bonjour, merci pour votre message.",
    "es": "Buenos días, gracias por su mensaje.",
    "it": "Buongiorno, grazie per il suo messaggio.",
    "nl": "Goedendag, dank u voor uw bericht.",
    "pt": "Bom dia, obrigado pela sua mensagem.",
    "pl": "Dzień dobry, dziękuję za wiadomość.",
    "sv": "Hej, tack för ditt meddelande.",
}


def test_facts_and_record_are_in_the_language_of_the_words(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    for number, (language, hello) in enumerate(HELLO.items(), 1):
        busy_shop.faults.openai.append(says(hello, Fact("refund/W1001"), language=language))
        busy_shop.write(f"W1001? {hello}", subject=language)
        told = busy_shop.wait_for_mails(ADA, number)[-1].text
        assert hello in told
        assert ("No refund has been asked for on order W1001." in told) is (language == "sv")
        assert ("On record" in told) is (language == "sv")
