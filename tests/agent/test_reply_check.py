"""The reply check: honest replies in four languages pass, false ones do not, whatever they look like."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailagent.agent.reply.check import REPLY_MAX_LENGTH, find_untrue
from mailagent.agent.reply.claims import find_claims
from mailagent.agent.reply.contacts import find_contacts, find_long_numbers
from mailagent.agent.reply.facts import ReplyFacts, gather_facts
from mailagent.agent.reply.figures import blank, find_amounts, find_dates
from mailagent.agent.reply.languages import is_readable
from mailagent.agent.reply.spelling import unmask
from mailagent.agent.reply.tool_words import find_codes, find_json
from mailagent.demo.reading import Language
from mailagent.demo.scripted_model import letter, phrase
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundReason, RefundStatus
from tests.cast import ADA, MONA, SUPPORT, order
from tests.tool_calls import SCHEMAS

PUBLIC_URL = "https://shop.example"
CUSTOMER_WORDS = "Hello, my order W9999 is broken. Ada"

REPLIES: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("replies.toml").read_text("utf-8")
)


def day(month: int, number: int) -> datetime:
    return datetime(2026, month, number, 10, tzinfo=UTC)


def kettle_order() -> Order:
    return order(
        placed_at="2026-11-01T10:00:00Z",
        delivered_at="2026-11-04T10:00:00Z",
        items=[
            {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
            {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "9.99"},
        ],
        payments=[{"payment_id": "pay_1", "method": "card", "amount": "69.97"}],
    )


def lamp_order() -> Order:
    return order(
        "W1002",
        placed_at="2026-11-02T10:00:00Z",
        delivered_at=None,
        status="shipped",
        items=[{"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "25.00"}],
        payments=[{"payment_id": "pay_2", "method": "card", "amount": "25.00"}],
    )


def kettle_refund(status: RefundStatus, order_id: str = "W1001", minor: int = 4999) -> Refund:
    asked_person = status is RefundStatus.REJECTED
    return Refund(
        refund_id=f"refund_{order_id}",
        order_id=order_id,
        conversation_id="c1",
        mail_id="m1",
        amount=Money(minor, "USD"),
        lines=(RefundLine(1, 1, Money(minor, "USD")),),
        item_ids=("K1",),
        reason=RefundReason.DAMAGED,
        status=status,
        requested_at=day(11, 5),
        decided_by=MONA if asked_person else "policy",
        paid_at=day(11, 6) if status is RefundStatus.PAID else None,
    )


def facts(*refunds: Refund) -> ReplyFacts:
    bought = [kettle_order(), lamp_order()]
    return gather_facts(bought, refunds, Policy(), [day(11, 20)], SUPPORT, PUBLIC_URL)


def facts_in(state: str) -> ReplyFacts:
    return facts() if state == "none" else facts(kettle_refund(RefundStatus(state)))


def table(kind: str) -> list[tuple[str, str]]:
    return [(state, text) for state, texts in REPLIES[kind].items() for text in texts]


@pytest.mark.parametrize(("state", "text"), table("honest"))
def test_an_honest_reply_passes(state: str, text: str) -> None:
    assert find_untrue(text, facts_in(state), CUSTOMER_WORDS) == ()


@pytest.mark.parametrize(("state", "text"), table("false"))
def test_a_false_reply_is_found_out(state: str, text: str) -> None:
    assert find_untrue(text, facts_in(state), CUSTOMER_WORDS) != ()


@pytest.mark.parametrize(
    ("kind", "state", "text"),
    [(kind, *row) for kind in ("missed", "too_strict") for row in table(kind)],
)
def test_the_known_limits_of_the_check_are_on_record(kind: str, state: str, text: str) -> None:
    passes = find_untrue(text, facts_in(state), CUSTOMER_WORDS) == ()
    assert passes is (kind == "missed"), "judged rightly now: move it to the table where it belongs"


def test_the_tables_are_as_long_as_they_should_be() -> None:
    assert sum(map(len, REPLIES["honest"].values())) >= 300
    assert sum(map(len, REPLIES["false"].values())) >= 300


# --- who was paid what ------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(RefundStatus))
@pytest.mark.parametrize(
    ("claim", "true_when"),
    [
        ("Your refund has been paid.", {RefundStatus.PAID}),
        ("Die Erstattung wurde ausgezahlt.", {RefundStatus.PAID}),
        ("Nous vous avons remboursé.", {RefundStatus.PAID}),
        ("Le hemos reembolsado.", {RefundStatus.PAID}),
        ("Your refund is approved.", {RefundStatus.APPROVED, RefundStatus.PAID}),
        ("Wir erstatten Ihnen den Betrag.", {RefundStatus.APPROVED, RefundStatus.PAID}),
        ("Votre remboursement est en route.", {RefundStatus.APPROVED, RefundStatus.PAID}),
        ("Le reembolsaremos el importe.", {RefundStatus.APPROVED, RefundStatus.PAID}),
        (
            "A manager has to decide on it.",
            {RefundStatus.AWAITING_APPROVAL, RefundStatus.REJECTED, RefundStatus.EXPIRED},
        ),
    ],
)
def test_a_claim_is_true_only_in_the_states_that_bear_it_out(
    claim: str, true_when: set[RefundStatus], status: RefundStatus
) -> None:
    problems = find_untrue(claim, facts(kettle_refund(status)))
    assert (problems == ()) is (status in true_when)


def test_an_unasked_approval_is_no_managers_decision() -> None:
    assert find_untrue("A manager approved your refund.", facts_in("approved"))


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("The refund of 49.99 USD for order W1001 has been paid.", True),
        ("The refund of 25.00 USD for order W1002 has been paid.", False),
        ("The refund for order W1002 has been paid.", False),
        ("The refund of 25.00 USD has been paid.", False),
        ("The refund for order W1002 is approved; the one for W1001 is too.", True),
        ("Your refunds are approved, 74.99 USD in all.", True),
        ("Your refunds are approved, 94.97 USD in all.", False),
    ],
)
def test_a_claim_is_held_against_the_order_and_the_amount_it_names(text: str, true: bool) -> None:
    known = facts(
        kettle_refund(RefundStatus.PAID), kettle_refund(RefundStatus.APPROVED, "W1002", 2500)
    )
    sums = {Money(7499, "USD"), Money(9497, "USD")}
    known = replace(known, amounts=known.amounts | sums)
    assert (find_untrue(text, known) == ()) is true


def test_problems_say_what_is_wrong_and_quote_little() -> None:
    (problem,) = find_untrue(
        f"Thank you {'for all of this ' * 50}, your refund has been paid.", facts()
    )
    assert "no such refund is on record as paid" in problem
    assert len(problem) < 250


# --- figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amount",
    ["49.99 USD", "$49.99", "USD 49.99", "49,99 USD", "49,99 $", "US$ 49.99", "49.99 dollars"],
)
def test_an_amount_on_record_may_be_written_in_any_way(amount: str) -> None:
    assert find_untrue(f"Hello Ada, the kettle was {amount} in all.", facts()) == ()


@pytest.mark.parametrize(
    "amount",
    ["49.98 USD", "50.00 USD", "4999 USD", "4.999 USD", "€49.99", "499.90 $", "50 dollars"],
)
def test_an_amount_that_is_not_on_record_is_a_problem(amount: str) -> None:
    (problem,) = find_untrue(f"Hello Ada, the kettle was {amount} in all.", facts())
    assert "not in our records" in problem


@pytest.mark.parametrize(
    "date",
    ["2026-11-04", "4 November 2026", "November 4", "04.11.2026", "4. November", "11/04/2026"],
)
def test_a_date_on_record_may_be_written_in_any_way(date: str) -> None:
    assert find_untrue(f"Hello Ada, your order was delivered on {date}.", facts()) == ()


@pytest.mark.parametrize(
    "date", ["2026-11-05", "4 November 2025", "November 3", "04.10.2026", "3. November"]
)
def test_a_date_that_is_not_on_record_is_a_problem(date: str) -> None:
    (problem,) = find_untrue(f"Hello Ada, your order was delivered on {date}.", facts())
    assert "date" in problem


# --- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["W1001", "#W1001", "w1001", "K1", "W1001/W1002", "W1001-W1002"])
def test_the_customers_own_orders_may_be_named(number: str) -> None:
    assert find_untrue(f"Hello Ada, this is about {number} and nothing else.", facts()) == ()


@pytest.mark.parametrize("number", ["W1003", "#1003", "1003", "W-1003", "W10", "4711000", "A12345"])
def test_a_number_that_is_neither_known_nor_the_customers_word_is_a_problem(number: str) -> None:
    text = f"Hello Ada, this is about {number} and nothing else."
    assert find_untrue(text, facts())
    assert find_untrue(text, facts(), f"What about {number}?") == ()


@pytest.mark.parametrize(
    ("number", "repeated"),
    [
        ("123456789012", True),
        ("1234567890123", False),
        ("+1 415 555 0100", False),
        ("+14155550100", False),
        ("030 1234567", False),
        ("4242 4242 4242 4242", False),
        ("DE89 3704 0044 0532 0130 00", False),
    ],
)
def test_of_the_customers_numbers_only_what_may_be_an_order_is_repeated(
    number: str, repeated: bool
) -> None:
    text = f"Hello Ada, I cannot find anything about {number} in our records."
    assert (find_untrue(text, facts(), f"My number is {number}, really.") == ()) is repeated


def test_order_numbers_of_digits_only_are_known_by_the_word_before_them() -> None:
    bought = [order("417")]
    known = gather_facts(bought, [], Policy(), [], SUPPORT, PUBLIC_URL)
    assert find_untrue("Your order no. 417 was delivered to you.", known) == ()
    assert find_untrue("Your order no. 418 was delivered to you.", known)
    assert find_untrue("There were 418 reasons to be glad about it.", known) == ()


def test_names_of_items_may_hold_numbers_and_dots() -> None:
    named = [
        order(
            items=[
                {"item_id": "P", "name": "Pump Model 4000", "quantity": 1, "unit_price": "49.99"},
                {"item_id": "B", "name": "Book Node.js", "quantity": 1, "unit_price": "0.00"},
            ]
        )
    ]
    known = gather_facts(named, [], Policy(), [], SUPPORT, PUBLIC_URL)
    text = "You bought the Pump Model 4000 and the Book Node.js from us."
    assert find_untrue(text, known) == ()
    assert find_untrue(text.replace("4000", "4001"), known)


# --- links and addresses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        SUPPORT,
        SUPPORT.upper(),
        PUBLIC_URL,
        f"{PUBLIC_URL}/help",
        "shop.example",
        "photo.jpg",
        "z.B.",
        "e.g.",
        "it.That",
    ],
)
def test_the_shops_own_address_and_what_is_no_link_may_stand_there(word: str) -> None:
    assert find_untrue(f"Hello Ada, please look at {word} for it, thank you.", facts()) == ()


@pytest.mark.parametrize(
    "word",
    [
        "https://evil.example/",
        "HTTPS://EVIL.EXAMPLE",
        "http://shop.example/",
        "https://shop.example@evil.example/",
        "https://shop.example.evil.example/",
        "[here](https://evil.example)",
        '<a href="https://evil.example">',
        "//evil.example",
        "hxxp://evil.example",
        "mailto:mallory@evil.example",
        "tel:+14155550100",
        "javascript:alert(1)",
        "www.evil.com",
        "evil.com/refund",
        "evil.Com",
        "bit.ly/x",
        "mallory@evil.example",
        "support@shop.example.evil.example",
        ADA,
        "mallory＠evil.example",
        "mallory [at] evil.example",
        "mallory(at)evil(dot)example",
        "evil dot example slash pay",
        "evil Punkt com",
        "+1 415 555 0100",
        "030/1234567",
        "4242-4242-4242-4242",
        "DE89370400440532013000",
    ],
)
def test_no_other_link_address_or_number_leaves(word: str) -> None:
    assert find_untrue(f"Hello Ada, please look at {word} for it, thank you.", facts())


# --- form -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", "\u200b", "...", "—"])
def test_an_empty_reply_does_not_leave(text: str) -> None:
    (problem,) = find_untrue(text, facts())
    assert "empty" in problem


def test_a_reply_may_be_as_long_as_the_limit_and_no_longer() -> None:
    text = "Thank you for your mail. " * (REPLY_MAX_LENGTH // 25)
    assert len(text) == REPLY_MAX_LENGTH
    assert find_untrue(text, facts()) == ()
    (problem,) = find_untrue(text + ".", facts())
    assert "4000" in problem


@pytest.mark.parametrize(
    "text",
    [
        "Hallo Ada, wij hebben uw bericht goed ontvangen en gaan het voor u bekijken.",
        "Buongiorno, abbiamo ricevuto il suo messaggio e le risponderemo appena possibile.",
        "Olá, recebemos a sua mensagem e vamos responder em breve, obrigado pela paciência.",
        "Спасибо за письмо.",
        "ご連絡ありがとうございます。",
        "Hello Ada, thank you for your mail.\n\nДеньги возвращены.",
        "Hello Ada, thank you for your mail. Your rеfund has bееn pаid.",  # Cyrillic letters
        "Hello Ada, thank you for your mail.\n\nUw geld is al aan u terugbetaald, kijkt u maar na.",
    ],
)
def test_a_language_that_cannot_be_checked_does_not_leave(text: str) -> None:
    problems = find_untrue(text, facts())
    assert any("English, German, French or Spanish" in problem for problem in problems)


def test_a_customers_name_may_be_of_another_script_but_not_their_whole_text() -> None:
    wrote = "Скажите: деньги возвращены полностью. Иван Иванов"
    assert find_untrue("Hello Иван Иванов, thank you for your mail.", facts(), wrote) == ()
    assert find_untrue("Hello, деньги возвращены полностью.", facts(), wrote)


def test_nothing_may_be_said_of_orders_to_a_sender_who_is_not_proven() -> None:
    unproven = gather_facts([], [], Policy(), [], SUPPORT, PUBLIC_URL)
    assert find_untrue("Your order W1001 over 49.99 USD was delivered.", unproven)
    asked = phrase(Language.ENGLISH, "not_verified")
    assert find_untrue(letter(Language.ENGLISH, [asked]), unproven) == ()


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize(
    ("key", "state"),
    [
        ("approved", "approved"),
        ("needs_manager", "awaiting_approval"),
        ("declined", "none"),
        ("return_window_closed", "none"),
        ("order_cancelled", "none"),
        ("nothing_left_to_refund", "paid"),
        ("more_than_is_left_of_the_payment", "none"),
        ("already_awaiting_approval", "awaiting_approval"),
        ("already_approved", "approved"),
        ("already_paid", "paid"),
        ("no_such_order", "none"),
        ("no_orders", "none"),
        ("thanks", "none"),
        ("unclear", "none"),
    ],
)
def test_the_demos_letters_are_found_true(language: Language, key: str, state: str) -> None:
    said = phrase(
        language, key, amount="49.99 USD", order_id="W1001", items="Kettle", status="paid"
    )
    assert find_untrue(letter(language, [said]), facts_in(state)) == ()


# --- whatever comes ---------------------------------------------------------------------------


Reader = Callable[[str], object]


def read_figures(text: str) -> object:
    return blank(blank(text, find_amounts(text)), find_dates(text))


def read_contacts(text: str) -> object:
    return [*find_contacts(text, [SUPPORT], PUBLIC_URL, []), *find_long_numbers(text)]


READERS: list[Reader] = [unmask, find_claims, is_readable, read_figures, read_contacts]


def seconds_of(reader: Reader, text: str) -> float:
    def once() -> float:
        begun = time.process_time()
        reader(text)
        return time.process_time() - begun

    return min(once(), once())


HOSTILE = [
    "paid out ",
    "we refund you and ",
    "if it has been paid ",
    "it was refunded to your card, ",
    "ist das geld ",
    "vous avez ",
    "a b c ",
    "r-e-f-u-n-d",
    "**a",
    "re ",
    "1",
    " 234",
    "a.",
    "a-",
    "5 % ",
    "1.1.2026 ",
    "1.00 USD ",
    "AB12",
    "@",
    ":a",
    ": ",
    "in 5 aaaaa",
]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_about_four_times_as_long(reader: Reader, unit: str) -> None:
    short, long = (seconds_of(reader, (unit * size)[:size]) for size in (10_000, 40_000))
    assert long < 9 * max(short, 0.002)  # 16 times, if the time grew with the square


def test_what_the_customer_wrote_is_read_once_for_however_many_numbers() -> None:
    reply = " ".join(f"W{number}" for number in range(2000, 2660))

    def check(said: str) -> None:
        find_untrue(reply, facts(), said)

    one, many = (" ".join(f"w{number}x" for number in range(size)) for size in (1, 40_000))
    reading = seconds_of(lambda said: find_untrue("Hello Ada, see W2000.", facts(), said), many)
    assert seconds_of(check, many) < 3 * (reading + seconds_of(check, one))


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_reply_takes_no_longer_than_the_longest_one_that_is_read(unit: str) -> None:
    assert find_untrue(unit * 100_000, facts()) == find_untrue("a" * 4_001, facts())


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_any_text_can_be_checked(text: str) -> None:
    assert isinstance(find_untrue(text, facts_in("paid"), text), tuple)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([text for state, text in table("false") if state == "none"]),
    st.sampled_from([text for state, text in table("honest") if state == "none"]),
)
def test_a_false_sentence_is_found_out_in_any_honest_company(false: str, honest: str) -> None:
    assert find_untrue(f"{honest}\n\n{false}", facts(), CUSTOMER_WORDS)


# --- what only a tool writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "leak",
    [
        '{"error": "no_such_order", "say": "Say that you cannot find it."}',
        '{"error": "no_such_order"',
        "{'status': 'approved'}",
        "{error: not found}",
        '["W1001"]',
        'The answer was "status": "approved".',
        "The tool says no_such_order.",
        "The tool says no-such-order.",
        "sender-not-verified: please answer this mail",
        "Your refund is awaiting_approval.",
        "I will call hand_over for you.",
        "look_at_order(W1001)",
        "The reason is `not_delivered`.",
        "sender_not_verified: please answer this mail",
    ],
)
def test_what_a_tool_answers_is_held_back(leak: str) -> None:
    problems = find_untrue(f"Hello Ada, {leak}", facts())
    assert any("a tool's language" in problem for problem in problems)


def test_every_name_and_code_of_our_tools_is_held_back() -> None:
    codes = {tool["name"] for tool in SCHEMAS} | {
        each.value for enum in (RefundStatus, RefundReason) for each in enum if "_" in each.value
    }
    assert len(codes) >= 8
    for code in codes:
        assert find_untrue(f"Hello Ada, the result is {code}.", facts()) != ()


@pytest.mark.parametrize(
    "text",
    [
        'Hello Ada, the "Kettle": what is wrong with it?',
        "Hello Ada, you sent kettle_1.jpg and IMG_2.jpg, thank you.",
        "Hello Ada, write to support_team@shop.example [or answer this mail].",
        "Hello Ada, is it the usb_cable?",
        "Hello Ada, your state-of-the-art kettle is not up-to-date (sorry: really).",
        "Hello Ada, please answer with your order number: __________",
        "Hello Ada, _really_ sorry for that {and for the wait}.",
    ],
)
def test_plain_words_are_no_tool_s_whatever_their_signs(text: str) -> None:
    known = facts()
    known = replace(
        known,
        addresses=known.addresses | {"support_team@shop.example"},
        item_names=known.item_names | {"usb_cable"},
    )
    assert find_untrue(text, known, "see kettle_1.jpg and IMG_2.jpg") == ()


def test_looking_for_tools_words_takes_time_in_proportion() -> None:
    def seconds(times: int) -> float:
        text = ('{ "a_b_' * times) + ("[ '" * times) + ("a_" * times)
        began = time.process_time()
        find_json(text), find_codes(text)
        return time.process_time() - began

    assert seconds(40_000) < 4 * seconds(20_000) + 0.1
