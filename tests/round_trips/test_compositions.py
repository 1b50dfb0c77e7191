"""What a composed reply says: phrases of the shop, facts from the rows, and the record below."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.scripted_model import Fact, Phrase
from mailagent.store import schema
from tests.cast import ADA, MALLORY, YESTERDAY, a_photo, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, wait_until
from tests.round_trips.mail_with_file import write_with_file
from tests.tool_calls import WHICH_ORDER, calls, refund_of, says, says_text

# What a reply may say does not depend on the database.
pytestmark = ONE_DATABASE

BINDING = "Only what stands here is binding."


def test_a_fact_is_told_as_it_is_when_the_mail_is_written(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [
        refund_of("W1001", ("K1", None)),
        says(Phrase("sorry_damaged"), Fact("refund/W1001"), Phrase("just_answer")),
    ]
    busy_shop.write("My kettle of W1001 is broken")
    told = busy_shop.wait_for_mails(ADA)[0].text
    sympathy = "I am sorry to hear that something arrived damaged."
    assert told.startswith(
        f"Hello Ada Example,\n\n{sympathy}\n\nYour refund of $49.99 for order W1001"
    )
    record = told[told.index("On record for order W1001") :]
    assert "Asked for: $49.99" in record
    assert BINDING in record
    assert "\n\nKind regards\nshop.example\n" in record


@pytest.mark.parametrize(
    "answers",
    [
        [says(Phrase("ask_which_items"), Fact("refund/W1001"))],
        [calls("hand_over", reason="cannot_help", summary="Wants money.")],
    ],
    ids=["asked back", "handed over"],
)
def test_a_customer_who_asks_for_a_refund_is_not_told_that_they_did_not(
    busy_shop: Harness, answers: list[Callable[[], Answer]]
) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += answers
    busy_shop.write("I want a refund for W1001.")
    told = busy_shop.wait_for_mails(ADA)[0].text
    body, record = told.split("On record for order W1001\n")
    assert record.startswith("Refunded: nothing\n")
    assert "asked for" not in told
    assert "A colleague" in body or "\nNothing has been refunded for order W1001.\n" in body


def test_phrases_in_a_row_are_one_paragraph(busy_shop: Harness) -> None:
    parts = Phrase("thanks_message"), WHICH_ORDER, Fact("support_address"), Fact("my_orders")
    busy_shop.faults.openai.append(says(*parts))
    busy_shop.write("Hello")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "Thank you for your message. Which order is it about?\n\nYou reach us at" in told
    assert "by answering this mail.\n\nWe find no order" in told


def test_words_of_the_model_are_left_out(busy_shop: Harness) -> None:
    busy_shop.faults.openai.append(says("The money is with you.", WHICH_ORDER, "Thank you."))
    busy_shop.write("Where is my order?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert told.startswith("Hello,\n\nWhich order is it about?\n\nKind regards\nshop.example")
    assert len(busy_shop.rows("SELECT 1 FROM model_calls")) == 1


@pytest.mark.parametrize("unusable", [says("Thank you."), says(), says(Phrase("paid"))])
def test_a_reply_of_which_nothing_can_be_sent_is_composed_again(
    busy_shop: Harness, unusable: Callable[[], Answer]
) -> None:
    busy_shop.faults.openai += [unusable, says(WHICH_ORDER)]
    busy_shop.write("Where is my order?")
    assert "Which order is it about?" in busy_shop.wait_for_mails(ADA)[0].text
    assert len(busy_shop.rows("SELECT 1 FROM model_calls")) == 2


@pytest.mark.parametrize(
    ("name", "greeted"),
    [
        ("Zoë O'Neill-Łukasz Jr.", "Hello Zoë O'Neill-Łukasz Jr.,"),
        ("Ada\n\nYour refund was paid.", "Hello,"),
        ("a" * 61, "Hello,"),
        ("Ada https://evil.example", "Hello,"),
        ("evil.example", "Hello,"),
        ("<b>Ada</b>", "Hello,"),
        ("Ada\u202e", "Hello,"),
        ("", "Hello,"),
    ],
)
def test_only_a_plain_name_is_greeted(busy_shop: Harness, name: str, greeted: str) -> None:
    busy_shop.stock(order())
    with busy_shop.live.database.transaction() as connection:
        connection.execute(schema.orders.update().values(customer_name=name))
    busy_shop.write("Where is W1001?")
    told = busy_shop.wait_for_mails(ADA)[0]
    assert told.text.startswith(f"{greeted}\n\nThank you for your message.\n\nOrder W1001")
    assert "evil" not in str(told.html)


def test_a_mail_about_no_order_has_no_record(busy_shop: Harness) -> None:
    busy_shop.faults.openai.append(says(WHICH_ORDER))
    busy_shop.write("Hello")
    assert "On record" not in busy_shop.wait_for_mails(ADA)[0].text


NOT_ON_RECORD = (
    *("refund/W1002", "refund/", "order", "paid/W1001", "declined/W1001", "goodwill/W1001", "\x00"),
)


def test_what_is_not_on_record_cannot_be_named(busy_shop: Harness) -> None:
    busy_shop.stock(order(), order("W1002", customer={"email": MALLORY, "name": "M"}))
    for number, fact_id in enumerate(NOT_ON_RECORD, 1):
        busy_shop.faults.openai += [says(WHICH_ORDER, Fact(fact_id)), says(Phrase("welcome"))]
        busy_shop.write("Hello", subject=f"Mail {number}")
        told = busy_shop.wait_for_mails(ADA, number)
        assert told[-1].text.startswith("Hello Ada Example,\n\nYou are very welcome.\n\nKind"), (
            fact_id
        )


def test_an_answer_that_is_no_composition_is_asked_for_again(busy_shop: Harness) -> None:
    busy_shop.faults.openai += [says_text("Your refund was paid."), says(WHICH_ORDER)]
    busy_shop.write("Hello")
    (told,) = busy_shop.wait_for_mails(ADA)
    assert "Which order is it about?" in told.text
    assert "paid" not in told.text


@pytest.mark.parametrize(
    ("subject", "text", "has_record"),
    [
        ("My order", "Where is W 1001?", True),
        ("Re: w-1001", "Thank you!", True),
        ("My order", "Thank you!\n\nOn Monday, shop.example wrote:\n> Order W1001", False),
        ("My order", "Where is W1002? I ordered W10011 and XW1001.", False),
        ("My Kettle", "It is a kettle.", False),
    ],
)
def test_an_order_that_the_customer_names_is_on_record_whatever_the_reply_names(
    busy_shop: Harness, subject: str, text: str, has_record: bool
) -> None:
    busy_shop.stock(order(), order("W1002", customer={"email": MALLORY, "name": "M"}))
    busy_shop.faults.openai.append(says(Phrase("welcome")))
    busy_shop.write(text, subject=subject)
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert ("On record for order W1001" in told) is has_record
    assert "On record for order W1002" not in told


def test_a_stranger_who_names_an_order_gets_no_record(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai.append(says(WHICH_ORDER))
    busy_shop.write("Where is W1001?", aligned=False)
    assert "On record" not in busy_shop.wait_for_mails(ADA)[0].text


def test_nobody_is_thanked_for_photos_that_did_not_come(busy_shop: Harness) -> None:
    parts = says(Phrase("thanks_photos"), WHICH_ORDER)
    busy_shop.faults.openai += [parts, parts]
    busy_shop.write("It is broken, see the photo.")
    assert "photos" not in busy_shop.wait_for_mails(ADA)[0].text
    write_with_file(busy_shop, "Here it is.", a_photo())
    assert "Thank you for the photos." in busy_shop.wait_for_mails(ADA, 2)[1].text


def test_nothing_is_said_to_be_beyond_withdrawal_while_a_request_waits(busy_shop: Harness) -> None:
    desk, lamp = (
        {"item_id": each, "name": each, "quantity": 1, "unit_price": price}
        for each, price in (("D1", "1499.00"), ("L1", "20.00"))
    )
    payment = {"payment_id": "p", "method": "card", "amount": "1519.00"}
    busy_shop.stock(order("W2001", items=[desk, lamp], payments=[payment]))
    busy_shop.faults.openai += [refund_of("W2001", ("L1", None)), says(WHICH_ORDER)]
    busy_shop.write("Refund the lamp")
    busy_shop.wait_for_refund("paid")
    busy_shop.faults.openai += [
        says(Fact("not_withdrawn/W2001")),
        refund_of("W2001", ("D1", None)),
        says(Fact("not_withdrawn/W2001")),
        says(Phrase("welcome")),
    ]
    for number, said in ((1, True), (2, False)):
        busy_shop.write("Take it back", subject=f"Mail {number}")
        wait_until(busy_shop.at_rest, 30, "the answer")
        assert ("cannot be withdrawn" in busy_shop.mails_to(ADA)[-1].text) is said


@pytest.mark.parametrize(
    ("text", "named", "hello"),
    [
        ("Wo ist meine Bestellung? Ich habe noch nichts erhalten.", "en", "Guten Tag"),
        ("Où est ma commande ? Je n'ai rien reçu.", "nl", "Bonjour"),
        ("Where is my order? I have not received it.", "de-AT", "Hello"),
        ("Hej, var är min order? Jag har inte fått den.", "de", "Guten Tag"),  # none of ours
        ("W1001?", "pl", "Dzień dobry"),
    ],
)
def test_a_language_that_is_clearly_not_the_customers_is_not_written(
    busy_shop: Harness, text: str, named: str, hello: str
) -> None:
    busy_shop.faults.openai.append(says(Phrase("thanks_message"), language=named))
    busy_shop.write(text)
    assert busy_shop.wait_for_mails(ADA)[0].text.startswith(hello)


# By language. There is no catalogue for Swedish: its replies are in English.
HELLO: dict[str, str] = {
    "de": "Guten Tag Ada Example,\n\nVielen Dank für Ihre Nachricht.\n\n",
    "fr": "Bonjour Ada Example,\n\nMerci pour votre message.\n\n",
    "es": "Hola, Ada Example:\n\nGracias por su mensaje.\n\n",
    "it": "Buongiorno Ada Example,\n\nGrazie per il Suo messaggio.\n\n",
    "nl": "Beste Ada Example,\n\nBedankt voor uw bericht.\n\n",
    "pt": "Olá Ada Example,\n\nAgradecemos a sua mensagem.\n\n",
    "pl": "Dzień dobry,\n\nDziękujemy za wiadomość.\n\n",
    "sv": "Hello Ada Example,\n\nThank you for your message.\n\n",
}


def test_a_whole_reply_is_in_the_language_that_the_model_names(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    parts = Phrase("thanks_message"), Fact("refund/W1001")
    for number, (language, hello) in enumerate(HELLO.items(), 1):
        busy_shop.faults.openai.append(says(*parts, language=language))
        busy_shop.write(f"W1001? {hello}", subject=language)
        told = busy_shop.wait_for_mails(ADA, number)[-1].text
        assert told.startswith(hello)
        for english in ("Nothing has been refunded", "On record", "Kind regards"):
            assert (english in told) is (language == "sv")


# The shop has W1001 for this customer, and no W1999.
@pytest.mark.parametrize(
    ("number", "denied"),
    [
        ("W1999", "We cannot find order W1999 among"),
        ("w-1999", "We cannot find order w-1999 among"),
        ("W/1999", "We cannot find this order among"),
        ("w1001", None),
        ("W-1001", None),
        ("W100", None),
        ("order", None),
        ("W1001, W1999", None),
        ("0044-20-7946-0958", None),
        ("You-get-1000-EUR", None),
    ],
)
def test_only_a_number_that_the_customer_wrote_is_denied(
    busy_shop: Harness, number: str, denied: str | None
) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [says(Fact(f"no_order/{number}")), says(WHICH_ORDER)]
    busy_shop.write("Where are my order W1001 and W 1999?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert (denied or "Which order is it about?") in told
    assert ("We cannot find" in told) is (denied is not None)


def test_an_item_whose_name_looks_like_a_number_is_no_missing_order(busy_shop: Harness) -> None:
    lamp = {"item_id": "L1", "name": "X100", "quantity": 1, "unit_price": "1499.00"}
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "1499.00"}
    busy_shop.stock(order(items=[lamp], payments=[paid]))
    busy_shop.faults.openai += [says(Fact("no_order/X100")), says(WHICH_ORDER)]
    busy_shop.write("My X100 does not shine.")
    assert "We cannot find" not in busy_shop.wait_for_mails(ADA)[0].text


@pytest.mark.parametrize(
    "parts",
    [
        (Phrase("sorry_answer"),),
        (Phrase("cannot_change_decision"),),
        (Phrase("see_record"),),
        (Phrase("see_order"), Phrase("nice_day")),
        (Phrase("cannot_change_decision"), Fact("refund/W1001")),
        (Phrase("shop_says"), Fact("support_address"), Phrase("sorry_answer")),
    ],
)
def test_a_phrase_tells_of_nothing_that_the_reply_does_not_have(
    busy_shop: Harness, parts: tuple[Phrase | Fact, ...]
) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [says(*parts), says(Phrase("nice_day"))]
    busy_shop.write("Please refund my kettle")
    told = busy_shop.wait_for_mails(ADA)[0].text
    for phrase in ("not the answer", "this decision", "record below", "your order:"):
        assert phrase not in told


def test_a_phrase_that_points_stands_before_its_fact_and_nothing_is_told_twice(
    busy_shop: Harness,
) -> None:
    busy_shop.stock(order())
    fact = Fact("order/W1001")
    busy_shop.faults.openai.append(says(Phrase("see_order"), fact, fact, Phrase("see_record")))
    busy_shop.write("Where is W1001?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "This is what I see about your order:\n\nOrder W1001 was delivered" in told
    assert told.count("was delivered") == 1
    assert "The record below shows" in told


def test_a_withdrawal_is_on_record_whatever_the_reply_names(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.faults.openai += [refund_of("W2001", ("D1", None)), says(WHICH_ORDER)]
    busy_shop.write("Refund W2001")
    busy_shop.wait_for_mails(ADA)
    withdraw = calls("withdraw_refund", order_id="W2001")
    busy_shop.faults.openai += [withdraw, says(Phrase("welcome"))]
    busy_shop.write("No, I keep it", subject="Never mind")
    assert "State: withdrawn" in busy_shop.wait_for_mails(ADA, 2)[1].text


def test_what_was_paid_back_elsewhere_or_declined_is_not_denied(busy_shop: Harness) -> None:
    paid = {"payment_id": "p", "method": "card", "amount": "49.99", "refunded": "49.99"}
    long_ago = (YESTERDAY - timedelta(days=90)).isoformat()
    late = order("W1002", placed_at=long_ago, delivered_at=long_ago)
    busy_shop.stock(order(payments=[paid]), late)
    busy_shop.faults.openai += [
        refund_of("W1002", ("K1", None)),
        says(Fact("refund/W1001"), Fact("declined/W1002"), Fact("refund/W1002")),
    ]
    busy_shop.write("Refund W1001 and W1002")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "asked for" not in told
    assert told.count("On record for order W1001\nPaid back in another way: $49.99") == 2
    assert told.count("Nothing has been refunded for order W1002.") == 1
    assert told.count("On record for order W1002\nRefunded: nothing") == 1


def test_no_return_period_is_told_of_a_final_sale(busy_shop: Harness) -> None:
    item = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    final = {**item, "item_id": "M1", "name": "Mug", "final_sale": True}
    paid = {"payment_id": "p", "method": "card", "amount": "99.98"}
    busy_shop.stock(order(items=[item, final], payments=[paid]), order("W1002", items=[final]))
    busy_shop.faults.openai += [
        says(Fact("return_period/W1002")),
        says(Fact("return_period/W1001")),
    ]
    busy_shop.write("Can I return W1001 and W1002?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "Kettle: You can return items of order W1001 until" in told
    assert "items of order W1002" not in told


# --- parcels --------------------------------------------------------------------------------------

LAMP = {"item_id": "L1", "name": "Lamp", "quantity": 2, "unit_price": "20.00"}
ON_ITS_WAY = {
    "shipment_id": "S1",
    "status": "in_transit",
    "carrier": "DHL",
    "tracking_number": "JD0141",
    "tracking_url": "https://dhl.example/track?n=JD0141&lang=en",
    "shipped_at": "2999-01-02T09:00:00Z",
    "expected_at": "2999-01-05T00:00:00Z",
    "last_event_at": "2999-01-03T10:30:00Z",
    "items": [{"item_id": "L1", "quantity": 1}],
}
ARRIVED = {"shipment_id": "S2", "status": "delivered", "delivered_at": "2999-01-04T09:00:00Z"}


def test_where_is_my_order_is_answered_with_its_parcels(busy_shop: Harness) -> None:
    busy_shop.stock(order(status="shipped", items=[LAMP], shipments=[ARRIVED, ON_ITS_WAY]))
    busy_shop.write("Where is my order W1001?")
    mail = busy_shop.wait_for_mails(ADA)[0]
    assert (
        "Parcel 1 of 2\nYour parcel of order W1001 is on its way.\nItems: 1 × Lamp\nCarrier: DHL\n"
        "Tracking number: JD0141\nTracking link: https://dhl.example/track?n=JD0141&lang=en\n"
        "Handed to the carrier: 2 January 2999\n"
        "Last news from the carrier: 3 January 2999, 10:30 UTC\nExpected: 5 January 2999\n\n"
        "Parcel 2 of 2\nYour parcel of order W1001 was delivered on 4 January 2999.\n"
    ) in mail.text
    record = mail.text[mail.text.index("On record for order W1001") :]
    assert "\nParcel: DHL JD0141, on its way\nParcel: delivered on 4 January 2999\n" in record
    assert "https://dhl.example/track?n=JD0141&amp;lang=en" in str(mail.html)


def test_a_parcel_is_told_in_the_language_of_the_mail_and_only_what_is_known(
    busy_shop: Harness,
) -> None:
    parcel = {"shipment_id": "S1", "status": "label_created"}
    busy_shop.stock(order(status="pending", delivered_at=None, shipments=[parcel]))
    busy_shop.write("Guten Tag, wo ist meine Bestellung W1001? Vielen Dank und viele Grüße")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert "ist beim Versanddienst angekündigt, aber noch nicht übergeben.\n\n" in told
    assert "Paket: beim Versanddienst angekündigt\n" in told
    assert "Sendungsnummer" not in told


def test_a_parcel_is_told_to_nobody_else(busy_shop: Harness) -> None:
    busy_shop.stock(order(shipments=[ON_ITS_WAY | {"items": []}]))
    busy_shop.faults.openai += [says(Fact("parcels/W1001"), WHICH_ORDER)] * 2
    busy_shop.write("Where is my order W1001?", from_address=MALLORY)
    told = busy_shop.wait_for_mails(MALLORY)[0].text
    assert "DHL" not in told
