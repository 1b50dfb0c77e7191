"""What the model is told of a mail: what lies behind it, the same at each turn, and nothing of whoever was
erased."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.scripted_model import Fact, Phrase
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.draft import Topic
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.policy import KeepOffers, Policy, Remedies
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.remedy import RemedyKind
from mailagent.store import audit
from mailagent.store.mail import arrivals, conversations
from mailagent.store.privacy import erasure
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.conversation.reply import find_topics, write_reply
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, GRACE, OLGA, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, code_in
from tests.told import record_told
from tests.tool_use import use
from tests.workflows import proposals
from tests.workflows.moves import case_of, reply_move
from tests.workflows.proposals import propose

CODE = "K7MX-4PQR-9TWZ"
DAY = timedelta(days=1)
SPENT = {"model_turns": 1, "tokens": 1, "unusable_replies": 0}


def thread_of(shop: Harness, message_id: str) -> Any:
    (row,) = shop.rows(
        "SELECT mail_id, conversation_id, reply_token FROM conversations"
        " JOIN inbound_mails USING (conversation_id) WHERE inbound_mails.message_id = :id",
        id=message_id,
    )
    return row


def write(shop: Harness, text: str = "Where is my kettle?", **changes: Any) -> Any:
    """Let Ada write; return her mail's thread."""
    return thread_of(shop, shop.write(text, **changes).message_id)


def write_again(shop: Harness, thread: Any, text: str = "Hello?", **changes: Any) -> Any:
    return write(shop, text, to=f"case+{thread.reply_token}@shop.example", **changes)


def take(thread: Any) -> Batch:
    batch = take_batch(thread.conversation_id)
    assert batch is not None
    return batch


def answer(thread: Any, phrase: str = "happy_to_help") -> None:
    batch = take(thread)
    assert write_reply(batch, reply_move(batch, Phrase(phrase)), SPENT)["kind"] == "written"


def give(shop: Harness, thread: Any, order_id: str = "W1001") -> None:
    """Give Ada a discount in answer to a mail."""
    now = shop.live.now()
    code = GoodwillCode(
        code=CODE, order_id=order_id, conversation_id=thread.conversation_id,
        mail_id=thread.mail_id, percent=10, policy_version=None, issued_at=now,
        expires_at=now + 9 * DAY,
    )  # fmt: skip
    with shop.live.database.transaction() as connection:
        goodwill.issue(connection, code)


def settle(shop: Harness, thread: Any, why: str = "a test") -> None:
    """Leave the mails of a thread without an answer."""
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = :why"
                " WHERE conversation_id = :here"
            ),
            {"here": thread.conversation_id, "why": why},
        )


def after_an_answer(shop: Harness) -> tuple[Batch, str]:
    thread = write(shop)
    answer(thread, "thanks_patience")
    return take(write_again(shop, thread)), "Thank you for your patience."


def after_a_mail_without_an_answer(shop: Harness) -> tuple[Batch, str]:
    thread = write(shop, "A word before.")
    settle(shop, thread)
    return take(write_again(shop, thread)), "A word before."


def beside_a_mail_that_may_be_forged(shop: Harness) -> tuple[Batch, str]:
    thread = write(shop, "Is it me?", aligned=False)
    write_again(shop, thread, "It is me.")
    unproven = take(thread)
    assert not unproven["verified"]
    return unproven, "It is me."


def test_a_reply_to_a_sender_who_is_proven_meanwhile_is_the_one_that_the_model_meant(
    shop: Harness,
) -> None:
    thread = write(shop, aligned=False)
    first = take(thread)
    assert write_reply(first, reply_move(first, Fact("not_verified")), SPENT)["kind"] == "written"
    (asked,) = shop.rows("SELECT * FROM outbound_mails")
    shop.write("And my pot?", to=asked.reply_to, aligned=False)
    batch = take(thread)
    shop.write(f"It is me: {code_in(asked)}", to=asked.reply_to, aligned=False)
    written = write_reply(batch, reply_move(batch, Fact("not_verified")), SPENT)
    assert written["kind"] == "written"
    _asked, mail = shop.rows("SELECT * FROM outbound_mails ORDER BY outbound_id")
    assert "we cannot tell for certain" in mail.text
    assert code_in(mail) != code_in(asked)


def quoting_a_discount(shop: Harness) -> tuple[Batch, str]:
    shop.stock(order())
    earlier = write(shop, "Another thread.")
    give(shop, earlier)
    return take(write(shop, f"I cannot use {CODE} here.")), "I cannot use [code] here."


@pytest.mark.parametrize(
    "story",
    [
        after_an_answer,
        after_a_mail_without_an_answer,
        beside_a_mail_that_may_be_forged,
        quoting_a_discount,
    ],
)
def test_what_lies_behind_a_mail_is_told_with_it(
    shop: Harness, story: Callable[[Harness], tuple[Batch, str]]
) -> None:
    batch, words = story(shop)
    assert words in case_of(batch).item["content"]


def test_what_comes_after_the_mails_were_taken_up_is_not_told(shop: Harness) -> None:
    thread = write(shop)
    write_again(shop, thread, "And my pot?")
    batch = take(thread)
    assert len(batch["mail_ids"]) == 2
    told = case_of(batch).item
    assert "And my pot?" in told["content"]
    write_again(shop, thread, "And my lamp?")
    assert (
        write_reply(batch, reply_move(batch, Phrase("happy_to_help")), SPENT)["kind"] == "written"
    )
    assert case_of(batch).item == told


def test_nobody_is_told_of_whoever_was_erased_meanwhile(shop: Harness) -> None:
    thread = write(shop)
    batch = take(thread)
    assert "kettle" in case_of(batch).item["content"]
    settle(shop, thread)  # as long as it waits nobody can be erased
    with shop.live.database.transaction() as connection:
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    found = case_of(batch)
    assert "kettle" not in found.item["content"]
    assert found.conversation.customer_email != ADA


def test_an_answer_says_the_discount_that_was_given_after_the_mail_was_taken_up(
    shop: Harness,
) -> None:
    shop.stock(order())
    thread = write(shop)
    batch = take(thread)
    give(shop, thread)
    write_reply(batch, reply_move(batch, Phrase("sorry_hear")), SPENT)
    (mail,) = shop.rows("SELECT text FROM outbound_mails")
    assert CODE in mail.text


@ONE_DATABASE
def test_a_reply_is_in_the_language_of_the_newest_mail_that_tells_one(shop: Harness) -> None:
    german = "Guten Tag, wo ist meine Bestellung? Ich habe noch nichts erhalten. Vielen Dank!"
    thread = write(shop, german)
    write_again(shop, thread, "Please answer me in English, my colleague reads this.")
    write_again(shop, thread, "W1001?")
    answer(thread)
    (reply,) = shop.rows("SELECT text FROM outbound_mails")
    assert reply.text.startswith("Hello")


@ONE_DATABASE
@pytest.mark.parametrize(("language", "greeting"), [("de", "Guten Tag"), ("fr", "Hello")])
def test_the_models_language_stays_if_the_newest_mail_seems_to_be_in_it(
    shop: Harness, language: str, greeting: str
) -> None:
    thread = write(shop, "Hello, where is my order? I have been waiting for it for two weeks now.")
    write_again(shop, thread, "Auf Deutsch, bitte.")
    batch = take(thread)
    write_reply(batch, reply_move(batch, Phrase("welcome"), language=language), SPENT)
    (reply,) = shop.rows("SELECT text FROM outbound_mails")
    assert reply.text.startswith(greeting)


def in_the_thread(shop: Harness) -> Any:
    thread = write(shop)
    answer(thread)
    return write_again(shop, thread)


def to_the_address(shop: Harness) -> Any:
    answer(write(shop))
    return write(shop, "Another one.")


def stopped_in_the_thread(shop: Harness) -> Any:
    thread = write(shop)
    settle(shop, thread, HandOverReason.LOOP_DETECTED.value)
    return write_again(shop, thread)


def stopped_from_the_address(shop: Harness) -> Any:
    settle(shop, write(shop), HandOverReason.LOOP_DETECTED.value)
    return write(shop, "Another one.")


def by_the_thread_only(shop: Harness) -> Any:
    """Of a thread whose customer was somebody else when it was answered."""
    thread = in_the_thread(shop)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE outbound_mails SET to_address = :to"), {"to": GRACE})
    return thread


def a_first_mail(shop: Harness) -> Any:
    answer(write(shop, from_address=GRACE))
    return write(shop)


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (in_the_thread, True),
        (to_the_address, True),
        (stopped_in_the_thread, True),
        (stopped_from_the_address, True),
        (by_the_thread_only, True),
        (a_first_mail, False),
    ],
)
def test_automatic_answers_are_found_by_thread_and_by_address(
    shop: Harness, story: Callable[[Harness], Any], found: bool
) -> None:
    here, now = story(shop).conversation_id, shop.live.now()
    with shop.live.database.snapshot() as connection:
        listed = arrivals.list_automatic(connection, now - DAY, True, here, ADA)
        assert bool(listed) is found


# --- topics ---------------------------------------------------------------------------------------


OLD = "2020-01-03T00:00:00+00:00"


def topics(shop: Harness, batch: Batch, *order_ids: str) -> tuple[Topic, ...]:
    with shop.live.database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        return find_topics(connection, conversation, batch["mail_ids"], order_ids)


def test_a_refund_is_the_topic_of_the_mail_that_asked_for_it_only(shop: Harness) -> None:
    shop.stock(order())
    asked, later = proposals.write(shop), proposals.write(shop)
    assert propose(asked, "W1001", ("K1", 1))["outcome"] == "approved"
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.OTHER,)


def test_a_declined_refund_is_a_topic_too(shop: Harness) -> None:
    shop.stock(order(placed_at=OLD, delivered_at=OLD))
    asked, later = proposals.write(shop), proposals.write(shop)
    assert propose(asked, "W1001", ("K1", 1))["outcome"] == "declined"
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.OTHER,)


def test_withdrawing_is_the_topic_of_the_mail_that_did_it(shop: Harness) -> None:
    shop.stock(big_order())
    asked, later = proposals.write(shop), proposals.write(shop)
    assert propose(asked, "W2001", ("D1", 1))["outcome"] == "needs_manager"
    use(withdraw_refund, later, {"order_id": "W2001"})
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.WITHDRAWAL,)


def test_an_offer_is_a_topic_until_a_mail_has_told_it(shop: Harness) -> None:
    services.bind(
        replace(shop.live, policy=Policy(keep_offers=KeepOffers({RefundReason.DAMAGED: 30})))
    )
    shop.stock(order())
    asked, later = proposals.write(shop), proposals.write(shop)
    assert propose(asked, "W1001", ("K1", 1))["outcome"] == "offered"
    assert topics(shop, asked, "W1001") == (Topic.REFUND, Topic.ORDERS)
    assert topics(shop, later, "W1001") == (Topic.REFUND, Topic.ORDERS)
    assert topics(shop, later) == (Topic.OTHER,)
    (offer,) = shop.rows("SELECT offer_id FROM offers")
    with shop.live.database.transaction() as connection:
        record_told(connection, audit.OFFER_TOLD, offer.offer_id)
    assert topics(shop, later, "W1001") == (Topic.ORDERS,)


@pytest.mark.parametrize("action", ["store credit chosen", "money chosen"])
def test_the_choice_between_money_and_credit_is_a_topic(
    shop: Harness, action: audit.Action
) -> None:
    shop.stock(big_order())
    asked, later = proposals.write(shop), proposals.write(shop)
    propose(asked, "W2001", ("D1", 1))
    (refund,) = shop.refunds()
    with shop.live.database.transaction() as connection:
        details = {"mail_id": later["mail_ids"][-1]}
        audit.record(connection, shop.live.now(), audit.CUSTOMER, action, refund.refund_id, details)
    assert topics(shop, later) == (Topic.REFUND,)
    assert topics(shop, proposals.write(shop)) == (Topic.OTHER,)


def test_withdrawing_a_request_is_a_topic(shop: Harness) -> None:
    rules = Remedies(frozenset({RemedyKind.EXCHANGE}))
    services.bind(replace(shop.live, policy=Policy(remedies=rules)))
    shop.stock(order())
    asked, later = proposals.write(shop), proposals.write(shop)
    kettle = {"items": [{"item_id": "K1", "quantity": 1}], "reason": "damaged", "wish": None}
    use(request_change, asked, {"order_id": "W1001", "kind": "exchange", **kettle})
    use(withdraw_refund, later, {"order_id": "W1001"})
    assert topics(shop, later) == (Topic.REMEDY,)
    assert topics(shop, proposals.write(shop)) == (Topic.OTHER,)


def test_a_discount_is_a_topic(shop: Harness) -> None:
    shop.stock(order())
    batch, now = proposals.write(shop), shop.live.now()
    with shop.live.database.transaction() as connection:
        code = GoodwillCode(
            code=goodwill.new_code(), order_id="W1001", conversation_id=batch["conversation_id"],
            mail_id=batch["mail_ids"][0], percent=10, policy_version=None, issued_at=now,
            expires_at=now + timedelta(days=9),
        )  # fmt: skip
        goodwill.issue(connection, code)
        audit.record(connection, now, audit.AGENT, "goodwill given", "W1001")
    assert topics(shop, batch) == (Topic.GOODWILL,)
    assert topics(shop, proposals.write(shop), "W1001") == (Topic.GOODWILL, Topic.ORDERS)


def test_an_order_that_is_named_is_a_topic(shop: Harness) -> None:
    shop.stock(order())
    assert topics(shop, proposals.write(shop), "W1001") == (Topic.ORDERS,)
    assert topics(shop, proposals.write(shop)) == (Topic.OTHER,)
