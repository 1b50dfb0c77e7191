"""The demo's model: which tools it uses for a letter, and what it then says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mailagent.adapters.templates.engine import Templates
from mailagent.adapters.templates.mail_samples import COMMON
from mailagent.agent.reply.composition import FactName, PhraseName, parse
from mailagent.demo.fakes.openai import tool_results
from mailagent.demo.reading import find_order_ids, guess_language, pick_reason
from mailagent.demo.scripted_model import Call, Say, ToolResult, next_turn, read_request
from mailagent.demo.shop import READY_MAILS
from mailagent.domain.refunds.refund import RefundReason

KETTLE = {"item_id": "1", "name": "Kettle", "quantity": 1, "refundable": 1}
MUG = {"item_id": "2", "name": "Coffee mug", "quantity": 2, "refundable": 2}
ORDER = {"order_id": "W1001", "status": "delivered", "items": [KETTLE, MUG], "refunds": []}
APPROVED = {
    "outcome": "approved",
    "facts": {"refund/W1001": "…"},
    "order_id": "W1001",
    "amount": "49.99 USD",
    "items": ["Kettle"],
}
NO_SUCH_ORDER = {"error": "no_such_order", "facts": {"no_order/W9999": "…"}, "say": "…"}
NOT_VERIFIED = {"error": "sender_not_verified", "facts": {"not_verified": "…"}, "say": "…"}


def content(text: str, subject: str = "", history: list[dict[str, str]] | None = None) -> str:
    return json.dumps(
        {
            "sender_verified": True,
            "history": history or [],
            "mails": [{"at": "2026-11-20T10:00:00Z", "subject": subject, "text": text}],
        }
    )


def facts_in(reply: str) -> list[str]:
    return [part.fact for part in parse(reply).parts if isinstance(part, FactName)]


def phrases_in(reply: str) -> list[str]:
    return [part.phrase for part in parse(reply).parts if isinstance(part, PhraseName)]


def play(case_text: str, outputs: Mapping[str, Any]) -> tuple[list[Call], str]:
    """Let the model work, each tool giving its one output; return its calls and its reply."""
    case = read_request(case_text)
    results: list[ToolResult] = []
    calls: list[Call] = []
    while True:
        turn = next_turn(case, results)
        if isinstance(turn, Say):
            return calls, turn.text
        calls.append(turn)
        if turn.name == "hand_over":
            return calls, ""
        assert len(calls) < 10, "the model goes round in circles"
        results.append(ToolResult(turn.name, turn.arguments, outputs[turn.name]))


@pytest.mark.parametrize(
    ("text", "items", "reason"),
    [
        ("Please refund order W1001.", ["1", "2"], "other"),
        ("The kettle of my order W1001 arrived broken.", ["1"], "damaged"),
        ("W1001: both mugs are the wrong colour, refund please", ["2"], "wrong_item"),
        ("The kettle and the mugs of w-1001 never arrived", ["1", "2"], "not_delivered"),
        ("I changed my mind about order no. 1001, please refund the kettle", ["1"], "changed_mind"),
        ("Bestellung W1001 ist kaputt, bitte Geld zurück", ["1", "2"], "damaged"),
    ],
)
def test_it_looks_at_the_named_order_and_proposes_the_named_items(
    text: str, items: list[str], reason: str
) -> None:
    calls, reply = play(content(text), {"look_at_order": ORDER, "propose_refund": APPROVED})
    assert [call.name for call in calls] == ["look_at_order", "propose_refund"]
    assert calls[0].arguments == {"order_id": "W1001"}
    assert calls[1].arguments == {
        "order_id": "W1001",
        "items": [{"item_id": item_id, "quantity": None} for item_id in items],
        "reason": reason,
    }
    assert facts_in(reply) == ["refund/W1001"]


def test_items_that_are_gone_are_not_asked_for_again() -> None:
    order = {**ORDER, "items": [{**KETTLE, "refundable": 0}, MUG]}
    calls, _ = play(
        content("Please refund order W1001"), {"look_at_order": order, "propose_refund": APPROVED}
    )
    assert calls[1].arguments["items"] == [{"item_id": "2", "quantity": None}]


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"refund/W1001": "…"}, ["refund/W1001"]),
        ({"declined/W1001": "…", "refund/W1001": "…"}, ["declined/W1001"]),
    ],
)
def test_the_reply_names_the_fact_that_the_tool_showed(
    facts: Mapping[str, str], named: list[str]
) -> None:
    _, reply = play(
        content("Please refund order W1001"),
        {"look_at_order": ORDER, "propose_refund": {"outcome": "approved", "facts": facts}},
    )
    assert facts_in(reply) == named


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("My kettle from W1001 arrived broken", "sorry_damaged"),
        ("The kettle of W1001 stopped working", "sorry_not_working"),
        ("W1001 never arrived, refund please", "sorry_waiting"),
        ("You sent the wrong mugs in W1001, refund", "sorry_wrong_item"),
        ("W1001 is not what I expected", "sorry_not_as_expected"),
        ("Please refund W1001", "thanks_message"),
        ("Where is W1001?", "thanks_message"),
    ],
)
def test_it_opens_with_a_phrase_that_fits(text: str, phrase: str) -> None:
    _, reply = play(content(text), {"look_at_order": ORDER, "propose_refund": APPROVED})
    assert phrases_in(reply) == [phrase, "just_answer"]


@pytest.mark.parametrize("mail", READY_MAILS, ids=lambda mail: mail.name)
def test_it_names_phrases_that_there_are(mail: Any) -> None:
    turn = next_turn(read_request(content(mail.text, mail.subject)), [])
    if isinstance(turn, Say):
        assert set(phrases_in(turn.text)) <= Templates(COMMON).phrases().keys()


@pytest.mark.parametrize(
    ("output", "told"),
    [(NO_SUCH_ORDER, "no_order/W9999"), (NOT_VERIFIED, "not_verified")],
)
def test_an_order_that_it_may_not_see_is_told_by_a_fact(
    output: Mapping[str, Any], told: str
) -> None:
    calls, reply = play(content("Please refund W9999"), {"look_at_order": output})
    assert [call.name for call in calls] == ["look_at_order"]
    assert told in reply


def test_without_a_number_it_looks_for_the_order_that_the_letter_speaks_of() -> None:
    orders = [
        {"order_id": "W1001", "placed_at": "2026-11-01", "items": ["Kettle", "Coffee mug"]},
        {"order_id": "W1002", "placed_at": "2026-11-02", "items": ["Raincoat"]},
    ]
    calls, _ = play(
        content("My kettle is broken, please refund it"),
        {
            "find_my_orders": {"orders": orders, "more": 0},
            "look_at_order": ORDER,
            "propose_refund": APPROVED,
        },
    )
    assert [call.name for call in calls] == ["find_my_orders", "look_at_order", "propose_refund"]
    assert calls[1].arguments == {"order_id": "W1001"}


@pytest.mark.parametrize(
    ("orders", "told"),
    [
        ([], "my_orders"),
        (
            [
                {"order_id": "W1001", "placed_at": "2026-11-01", "items": ["Kettle"]},
                {"order_id": "W1002", "placed_at": "2026-11-02", "items": ["Raincoat"]},
            ],
            "ask_which_order",
        ),
    ],
)
def test_it_asks_when_the_order_stays_unclear(orders: list[dict[str, Any]], told: str) -> None:
    calls, reply = play(
        content("I want a refund, please"), {"find_my_orders": {"orders": orders, "more": 0}}
    )
    assert [call.name for call in calls] == ["find_my_orders"]
    assert told in reply


def test_two_orders_in_one_letter_are_both_seen_to() -> None:
    calls, reply = play(
        content("Please refund W1001 and W1002"),
        {"look_at_order": ORDER, "propose_refund": APPROVED},
    )
    assert [call.arguments["order_id"] for call in calls if call.name == "look_at_order"] == [
        "W1001",
        "W1002",
    ]
    assert reply


@pytest.mark.parametrize(
    "text",
    [
        "Let me talk to a human being, now!",
        "I want to speak with your manager about W1001. Refund it!",
        "Ich will mit einem Menschen sprechen",
    ],
)
def test_who_wants_a_person_gets_one(text: str) -> None:
    calls, _ = play(content(text), {})
    assert [call.name for call in calls] == ["hand_over"]
    assert calls[0].arguments["reason"] == "customer_asked"


def test_a_manager_who_is_only_mentioned_is_not_asked_for() -> None:
    calls, _ = play(
        content("The manager of your store said I can get a refund for W1001"),
        {"look_at_order": ORDER, "propose_refund": APPROVED},
    )
    assert [call.name for call in calls] == ["look_at_order", "propose_refund"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Thank you so much!", "welcome"),
        ("purple monkey dishwasher 42 lol", "ask_which_order"),
        ("", "ask_which_order"),
    ],
)
def test_thanks_and_nonsense_get_a_polite_answer_without_tools(text: str, told: str) -> None:
    calls, reply = play(content(text), {})
    assert calls == []
    assert told in reply


def test_an_answer_to_our_question_goes_on_with_the_request() -> None:
    history = [
        {"from": "customer", "at": "2026-11-20T10:00:00Z", "text": "I want a refund for my kettle"},
        {"from": "shop", "at": "2026-11-20T10:00:05Z", "text": "Which order do you mean?"},
    ]
    calls, _ = play(
        content("It is W1001", "Re: Kettle", history),
        {"look_at_order": ORDER, "propose_refund": APPROVED},
    )
    assert [call.name for call in calls] == ["look_at_order", "propose_refund"]
    assert calls[1].arguments["items"] == [{"item_id": "1", "quantity": None}]


TOASTER = "Please refund the kettle and the toaster of W1001."


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        ("Just the kettle, please.", [{"item_id": "1", "quantity": None}]),
        ("The kettle.", [{"item_id": "1", "quantity": None}]),
        ("Please refund the kettle.", [{"item_id": "1", "quantity": None}]),
        ("One mug", [{"item_id": "2", "quantity": 1}]),
        ("Not the mugs, only the kettle", [{"item_id": "1", "quantity": None}]),
    ],
)
def test_the_answer_to_which_items_is_read_alone(answer: str, items: list[Any]) -> None:
    history = [
        {"from": "customer", "text": TOASTER},
        {"from": "shop", "text": "Which items is it about?"},
    ]
    letter = content(answer, f"Re: {TOASTER}", history)
    calls, _ = play(letter, {"look_at_order": ORDER, "propose_refund": APPROVED})
    assert [call.name for call in calls] == ["look_at_order", "propose_refund"]
    assert calls[1].arguments["items"] == items


@pytest.mark.parametrize(
    "answer", ["All of them, please.", "Everything", "The whole order", "Alles, bitte."]
)
def test_the_answer_to_which_items_may_be_all(answer: str) -> None:
    history = [
        {"from": "customer", "text": "I want my money back. W1001"},
        {"from": "shop", "text": "Which items is it about?"},
    ]
    letter = content(answer, "Re: W1001", history)
    calls, _ = play(letter, {"look_at_order": ORDER, "propose_refund": APPROVED})
    assert [each["item_id"] for each in calls[-1].arguments["items"]] == ["1", "2"]


@pytest.mark.parametrize("answer", ["Please refund the toaster.", "As I said."])
def test_which_items_is_asked_once(answer: str) -> None:
    calls, reply = play(content(TOASTER), {"look_at_order": ORDER})
    assert "ask_which_items" in phrases_in(reply)
    history = [{"from": "customer", "text": TOASTER}]
    calls, _ = play(content(answer, f"Re: {TOASTER}", history), {"look_at_order": ORDER})
    assert [call.name for call in calls] == ["look_at_order", "hand_over"]


def test_which_order_is_asked_once() -> None:
    orders = [{"order_id": "W1001", "items": ["Kettle"]}, {"order_id": "W1002", "items": ["Lens"]}]
    history = [{"from": "customer", "text": "I want a refund, please"}]
    letter = content("The blue one", "Re: Refund", history)
    calls, _ = play(letter, {"find_my_orders": {"orders": orders, "more": 0}})
    assert [call.name for call in calls] == ["find_my_orders", "hand_over"]


def test_thanks_after_a_refund_do_not_ask_for_another() -> None:
    history = [
        {"from": "customer", "at": "2026-11-20T10:00:00Z", "text": "Please refund W1001"},
        {"from": "shop", "at": "2026-11-20T10:00:05Z", "text": "Your refund is approved."},
    ]
    calls, reply = play(content("Thanks a lot!", "Re: Refund my kettle", history), {})
    assert calls == []
    assert "welcome" in reply


def test_where_is_my_money_is_answered_from_the_order() -> None:
    refunds = [{"items": ["Kettle"], "amount": "49.99 USD", "status": "paid"}]
    history = [{"from": "customer", "at": "2026-11-20T10:00:00Z", "text": "Please refund W1001"}]
    calls, reply = play(
        content("Where is my money?", "Re: kettle", history),
        {"look_at_order": {**ORDER, "refunds": refunds}},
    )
    assert [call.name for call in calls] == ["look_at_order"]
    assert facts_in(reply) == ["order/W1001", "refund/W1001"]


def test_how_a_request_stands_is_answered_from_the_order() -> None:
    requests = [{"kind": "replacement", "status": "task", "items": ["Kettle"]}]
    calls, reply = play(
        content("Any news about W1001?"), {"look_at_order": {**ORDER, "requests": requests}}
    )
    assert [call.name for call in calls] == ["look_at_order"]
    assert facts_in(reply) == ["order/W1001", "remedy/W1001"]


def test_a_reply_that_was_found_untrue_goes_to_a_person() -> None:
    turn = next_turn(read_request(content("Please refund W1001")), [], corrected=True)
    assert isinstance(turn, Call)
    assert turn.arguments["reason"] == "cannot_help"


def test_a_tool_that_fails_goes_to_a_person() -> None:
    calls, _ = play(
        content("Please refund W1001"),
        {"look_at_order": ORDER, "propose_refund": {"error": "bad_arguments", "say": "…"}},
    )
    assert calls[-1].name == "hand_over"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello, my kettle is broken", "en"),
        ("Guten Tag, mein Wasserkocher ist kaputt", "de"),
        ("Bonjour, ma bouilloire est cassée", "fr"),
        ("Hola, mi hervidor no funciona", "es"),
        ("Buongiorno, il mio bollitore non funziona più", "it"),
        ("Dzień dobry, mój czajnik nie działa", "pl"),
        ("W1001", "en"),
    ],
)
def test_language_is_told_by_common_words(text: str, language: str) -> None:
    assert guess_language(text) == language


@pytest.mark.parametrize(
    ("text", "order_ids"),
    [
        ("W1001 and w1002, W1001 again", ("W1001", "W1002")),
        ("order #1001", ("W1001",)),
        ("Bestellung Nr. 1006", ("W1006",)),
        ("I paid 1499 dollars in 2026", ()),
        ("call W12 or XW1001x", ()),
    ],
)
def test_order_numbers_are_found_however_they_are_written(
    text: str, order_ids: tuple[str, ...]
) -> None:
    assert find_order_ids(text) == order_ids


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("it won't turn on", RefundReason.DAMAGED),
        ("you sent me the wrong laptop", RefundReason.WRONG_ITEM),
        ("something is wrong", RefundReason.OTHER),
        ("not what I expected", RefundReason.NOT_AS_DESCRIBED),
        ("Der Mantel gefällt mir nicht", RefundReason.CHANGED_MIND),
        ("please", RefundReason.OTHER),
    ],
)
def test_the_reason_is_picked_from_words(text: str, reason: RefundReason) -> None:
    assert pick_reason(text) is reason


@pytest.mark.parametrize("letter", READY_MAILS, ids=lambda letter: letter.name)
def test_every_ready_letter_is_understood(letter: Any) -> None:
    """None but the nonsense ends in a question, none in a reason that the words do not give."""
    case = read_request(content(letter.text, letter.subject))
    turn = next_turn(case, [])
    expected = {
        "small": "look_at_order",
        "expensive": "look_at_order",
        "foreign": "look_at_order",
        "forged": "look_at_order",
        "angry": "hand_over",
        "german": "look_at_order",
        "no_number": "find_my_orders",
        "question": "look_at_order",
        "one_mug": "look_at_order",
        "exchange": "look_at_order",
        "transfer": "look_at_order",
        "address": "look_at_order",
        "cancel": "look_at_order",
        "return": "look_at_order",
        "replacement": "look_at_order",
        "credit": "look_at_order",
        "late": "look_at_order",
        "offer": "look_at_order",
    }
    assert (turn.name if isinstance(turn, Call) else None) == expected.get(letter.name)


CREDITING = {**ORDER, "store_credit": "worth 10 % more than money"}


@pytest.mark.parametrize(
    ("earlier", "text", "pay_as"),
    [
        ("", "The kettle of W1001 is broken, please refund it", "no_choice"),
        ("", "The kettle of W1001 is broken. Could I have store credit for it?", "store_credit"),
        ("The kettle of W1001 is broken", "I take the store credit, please.", "store_credit"),
        ("The kettle of W1001 is broken. Store credit, please", "Yes, please.", "store_credit"),
        ("The kettle of W1001 is broken", "I would rather have my money back.", "money"),
    ],
)
def test_store_credit_is_what_the_newest_mail_chooses(earlier: str, text: str, pay_as: str) -> None:
    told = json.loads(content(text))
    told["history"] = [{"from": "customer", "text": earlier}] if earlier else []
    calls, _ = play(json.dumps(told), {"look_at_order": CREDITING, "propose_refund": APPROVED})
    assert calls[1].arguments["pay_as"] == pay_as


def test_a_shop_without_store_credit_is_not_asked_for_it() -> None:
    letter = content("The kettle of W1001 is broken. Could I have store credit for it?")
    calls, _ = play(letter, {"look_at_order": ORDER, "propose_refund": APPROVED})
    assert "pay_as" not in calls[1].arguments


def test_a_call_without_its_output_is_refused() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "find_my_orders", "arguments": "{}"}
    with pytest.raises(ValueError, match="do not go together: a"):
        tool_results([call])


@pytest.mark.parametrize(
    "text",
    [
        "Never mind, I will keep the kettle from order W1001.",
        "Please cancel my refund request for W1001",
        "I don't want a refund for W1001 any more",
        "Bestellung W1001: hat sich erledigt, danke!",
        "Ich ziehe meine Bitte um Rückzahlung für W1001 zurück.",
    ],
)
def test_never_mind_takes_the_request_back(text: str) -> None:
    withdrawn = {"outcome": "withdrawn", "facts": {"refund/W1001": "…"}}
    calls, reply = play(content(text), {"withdraw_refund": withdrawn})
    assert calls == [Call("withdraw_refund", {"order_id": "W1001"})]
    assert "W1001" in reply


def test_what_came_of_it_is_named() -> None:
    output = {"outcome": "too_late", "facts": {"not_withdrawn/W1001": "…", "refund/W1001": "…"}}
    _, reply = play(content("Never mind about W1001"), {"withdraw_refund": output})
    assert facts_in(reply) == ["not_withdrawn/W1001"]
