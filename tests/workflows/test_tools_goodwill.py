"""The goodwill discount: capped, once per order, its code in the mail and nowhere else."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mailagent import mailers, services
from mailagent.agent.loop import Spent
from mailagent.demo.scripted_model import Fact, Part, Phrase
from mailagent.domain.deadline import end_of_day
from mailagent.domain.mail.draft import DraftReplies
from mailagent.domain.refunds.policy import Goodwill, Policy
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, inbound
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.people import hand_over
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.tools.offer_goodwill import offer_goodwill
from tests.cast import ADA, GRACE, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, wait_until
from tests.tool_use import use
from tests.web.console.drafts import press
from tests.workflows.camera import answer, batch_of
from tests.workflows.moves import case_of, person_move, reply_move

CODE = re.compile(r"\b[2-9A-HJKMNP-TV-Z]{4}-[2-9A-HJKMNP-TV-Z]{4}-[2-9A-HJKMNP-TV-Z]{4}\b")

CHARGED_BACK = {"payment_id": "p", "method": "card", "amount": "49.99"} | {
    "charged_back_at": "2026-11-19T10:00:00Z"
}


@pytest.fixture
def kind_shop(shop: Harness) -> Harness:
    """A shop whose policy gives up to ten percent."""
    give(shop, Goodwill(most_percent=10, valid_days=90))
    shop.stock(order("W1010"), order("W1011"))
    return shop


def give(shop: Harness, rules: Goodwill | None) -> None:
    services.bind(replace(shop.live, policy=Policy(goodwill=rules)))


def offer(batch: Batch, percent: int = 10, order_id: str = "W1010") -> dict[str, Any]:
    return use(offer_goodwill, batch, {"order_id": order_id, "percent": percent})


def codes(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM goodwill_codes ORDER BY issued_at")


def reply(shop: Harness, batch: Batch, *parts: Part) -> str:
    """Write the model's reply; return the text of the mail, or nothing when it was found untrue."""
    written = write_reply(batch, reply_move(batch, *parts), Spent(model_turns=1, tokens=1).plain())
    if written["kind"] == "untrue":
        return ""
    (row,) = shop.rows(
        "SELECT text FROM outbound_mails WHERE outbound_id = :id", id=written["outbound_ids"][0]
    )
    return str(row.text)


def test_a_discount_is_given_once_and_the_same_call_again_is_the_same_code(
    kind_shop: Harness,
) -> None:
    batch = batch_of(kind_shop)
    told = offer(batch)
    assert (told["outcome"], told["percent"]) == ("offered", 10)
    assert offer(batch) == told
    assert offer(batch, 5) == told  # once is once
    (row,) = codes(kind_shop)
    assert CODE.fullmatch(row.code)
    assert (row.percent, row.mail_id, row.policy_version) == (
        10,
        batch["mail_ids"][-1],
        Policy().version,
    )
    assert row.code not in str(told)


@ONE_DATABASE
@pytest.mark.parametrize(("percent", "given"), [(1, True), (10, True), (11, False), (100, False)])
def test_the_policy_caps_the_percentage(kind_shop: Harness, percent: int, given: bool) -> None:
    told = offer(batch_of(kind_shop), percent)
    assert (told.get("outcome") == "offered") is given
    assert (told.get("error"), told.get("most_percent")) == (
        (None, None) if given else ("above_cap", 10)
    )
    assert len(codes(kind_shop)) == given


def test_there_is_one_discount_for_an_order_and_one_in_answer_to_a_mail(kind_shop: Harness) -> None:
    batch = batch_of(kind_shop)
    offer(batch, 4)
    assert offer(batch, 5, "W1011")["outcome"] == "already_given"
    reply(kind_shop, batch, Phrase("sorry_hear"))
    later = batch_of(kind_shop, "Later")
    told = offer(later, 5)
    assert (told["outcome"], told["percent"]) == ("already_given", 4)
    assert offer(later, 5, "W1011")["outcome"] == "offered"
    assert [row.percent for row in codes(kind_shop)] == [4, 5]


@ONE_DATABASE
@pytest.mark.parametrize("who", ["stranger", "unproven", "no such order", "too late", "no policy"])
def test_nobody_is_given_what_is_not_theirs_now(kind_shop: Harness, who: str) -> None:
    batch = batch_of(kind_shop)
    if who == "stranger":
        told = offer(batch_of(kind_shop, "Mine", from_address=GRACE))
        other = offer(batch, order_id="W9999")
        assert told == {**other, "facts": ["no_order/W1010"]}
    elif who == "unproven":
        told = offer({**batch, "verified": False})
    elif who == "no such order":
        told = offer(batch, order_id="W9999")
    elif who == "too late":
        answer(kind_shop, batch)
        told = offer(batch)
    else:
        give(kind_shop, None)
        told = offer(batch)
        assert "offer_goodwill" not in told["say"]
    assert "error" in told
    assert codes(kind_shop) == []


@ONE_DATABASE
def test_a_batch_of_which_people_took_one_mail_gets_no_discount(kind_shop: Harness) -> None:
    first = kind_shop.write("My kettle is broken.")
    batch = batch_of(kind_shop, in_reply_to=first.message_id)
    assert len(batch["mail_ids"]) == 2
    answer(kind_shop, batch)
    assert offer(batch)["error"] == "case_closed"
    assert codes(kind_shop) == []


@ONE_DATABASE
def test_the_answer_carries_the_code_and_may_name_the_discount(kind_shop: Harness) -> None:
    batch = batch_of(kind_shop)
    promise = Fact("goodwill/W1010")
    assert reply(kind_shop, batch, Phrase("sorry_hear"), promise) == ""  # nothing was given yet
    offer(batch)
    (row,) = codes(kind_shop)
    assert reply(kind_shop, batch, "Dear Ada, you get 15 percent off.") == ""
    told = reply(kind_shop, batch, Phrase("sorry_hear"), promise)
    assert row.code in told
    assert "10% off one later order" in told


# SQLite lets one transaction write at a time.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_an_offer_beside_the_answer_gives_no_code_that_nobody_is_told(
    kind_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, told = batch_of(kind_shop), list[dict[str, Any]]()
    beside = threading.Thread(target=lambda: told.append(offer(batch)))
    record_answer = inbound.answer

    def begin_the_offer(*arguments: Any) -> None:
        beside.start()  # the answer is written, without a code, and not committed
        waits = "wait_event_type = 'Lock' AND datname = current_database()"
        asked = f"SELECT 1 FROM pg_stat_activity WHERE {waits}"
        wait_until(lambda: bool(kind_shop.rows(asked)), 20, "the offer to wait for the answer")
        record_answer(*arguments)

    monkeypatch.setattr(inbound, "answer", begin_the_offer)
    assert reply(kind_shop, batch, Phrase("ask_which_items"))
    beside.join()
    assert [each["error"] for each in told] == ["case_closed"]
    assert codes(kind_shop) == []


@ONE_DATABASE
@pytest.mark.parametrize("untrue", [True, False])
def test_the_code_comes_also_when_a_person_takes_over(kind_shop: Harness, untrue: bool) -> None:
    batch = batch_of(kind_shop)
    offer(batch)
    with kind_shop.live.database.transaction() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        mailers.write_handed_over(connection, conversation, mails, untrue, "hand_over:1")
    (row,) = codes(kind_shop)
    (mail,) = kind_shop.rows("SELECT text, html FROM outbound_mails")
    assert row.code in mail.text
    assert row.code in mail.html


@pytest.mark.both_databases
@pytest.mark.parametrize("why", ["CUSTOMER_ASKED", "REPLY_NOT_TRUE"])
def test_in_draft_mode_the_code_waits_for_an_answer_of_a_person(
    kind_shop: Harness, why: str
) -> None:
    services.bind(replace(services.current(), draft_replies=DraftReplies.ALL))
    batch = batch_of(kind_shop)
    offer(batch)
    hand_over(batch, person_move(why))
    press(
        kind_shop.log_in(TESS),
        batch["conversation_id"],
        "answer",
        text="Sorry.",
        once=new_id("once"),
    )
    first, second = kind_shop.rows(
        "SELECT text FROM outbound_mails WHERE to_address = :ada ORDER BY outbound_id", ada=ADA
    )
    (row,) = codes(kind_shop)
    assert ("On record for order W1010" in first.text, "10%" in first.text) == (True, False)
    assert (row.code in first.text, row.code in second.text) == (False, True)


@ONE_DATABASE
def test_the_code_comes_once_if_a_person_answers_instead(kind_shop: Harness) -> None:
    batch = batch_of(kind_shop)
    offer(batch)
    (row,) = codes(kind_shop)
    tess = kind_shop.log_in(TESS)
    for _ in range(2):
        press(tess, batch["conversation_id"], "answer", text="We are sorry.", once=new_id("once"))
    first, second = kind_shop.rows("SELECT text, html FROM outbound_mails ORDER BY outbound_id")
    assert (first.text.count(row.code), first.html.count(row.code)) == (1, 1)
    assert row.code not in second.text
    told = reply(kind_shop, batch_of(kind_shop, "Again"), Fact("goodwill/W1010"))
    assert "we gave you 10% off one later order." in told
    assert row.code not in told


@ONE_DATABASE
def test_a_code_that_no_mail_has_had_comes_with_the_next_answer(kind_shop: Harness) -> None:
    batch = batch_of(kind_shop)
    offer(batch)
    (row,) = codes(kind_shop)
    beside = batch_of(kind_shop, "Another thread")
    assert row.code not in reply(kind_shop, beside, Fact("order/W1010"))  # its own answer has it
    with kind_shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"], "a person discarded the draft")
    unproven = batch_of(kind_shop, "Who am I?")
    assert row.code not in reply(kind_shop, {**unproven, "verified": False}, Fact("not_verified"))
    later = batch_of(kind_shop, "Again")
    assert offer(later, 5)["outcome"] == "offered"
    told = reply(kind_shop, later, Fact("goodwill/W1010"))
    assert (told.count("you get 10%"), told.count(row.code)) == (1, 1)
    assert offer(batch_of(kind_shop, "Once more"), 5)["outcome"] == "already_given"


@ONE_DATABASE
def test_a_later_answer_neither_repeats_the_code_nor_shows_it_to_the_model(
    kind_shop: Harness,
) -> None:
    batch = batch_of(kind_shop)
    offer(batch)
    (row,) = codes(kind_shop)
    assert row.code in reply(kind_shop, batch, Phrase("sorry_hear"), Fact("goodwill/W1010"))
    (thread,) = kind_shop.rows("SELECT reply_token FROM conversations")
    kind_shop.write(
        f"My code {row.code.lower().replace('-', ' ')} does not work",
        to=f"case+{thread.reply_token}@shop.example",
    )
    (mail,) = kind_shop.rows("SELECT mail_id FROM inbound_mails WHERE status = 'unanswered'")
    later: Batch = {**batch, "mail_ids": [mail.mail_id]}
    case = case_of(later).item
    assert "My code [code] does not work" in case["content"]
    assert not CODE.search(case["content"])
    told = reply(kind_shop, later, Phrase("sorry_trouble"), Fact("goodwill/W1010"))
    assert row.code not in told
    assert "we gave you 10% off one later order." in told
    assert "you get 10%" not in told


@ONE_DATABASE
@pytest.mark.parametrize("seconds", [-1, 0])
def test_a_code_that_is_over_is_neither_promised_nor_sent(kind_shop: Harness, seconds: int) -> None:
    batch = batch_of(kind_shop)
    offer(batch)
    with kind_shop.live.database.snapshot() as connection:
        (code,) = goodwill.list_all(connection)
    assert code.expires_at == end_of_day(code.issued_at + timedelta(days=90))
    then = code.expires_at + timedelta(seconds=seconds)
    services.bind(replace(services.current(), now=lambda: then))
    told = reply(kind_shop, batch, Fact("goodwill/W1010"))
    assert bool(told) is (seconds < 0)
    told = told or reply(kind_shop, batch, Phrase("sorry_hear"))
    assert (code.code in told) is (seconds < 0)


@ONE_DATABASE
@pytest.mark.parametrize("changes", [{"status": "cancelled"}, {"payments": [CHARGED_BACK]}])
def test_there_is_no_discount_for_an_order_that_was_cancelled_or_charged_back(
    kind_shop: Harness, changes: dict[str, Any]
) -> None:
    kind_shop.stock(order("W1010", **changes))
    assert offer(batch_of(kind_shop))["error"] == "not_for_this_order"
    assert codes(kind_shop) == []
