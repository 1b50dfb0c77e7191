"""Part of the price offered instead of a refund: offered once, accepted once, and never more than is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mailagent import mailers, services
from mailagent.demo.scripted_model import Fact
from mailagent.domain.deadline import end_of_day
from mailagent.domain.mail.draft import DraftReplies
from mailagent.domain.refunds.policy import KeepOffers, Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.mailers.fact import sentence
from mailagent.mailers.letter import letter_by_person
from mailagent.remedies import finish
from mailagent.store import audit
from mailagent.store.refunds import offers
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.conversation.people import hand_over
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.steps.maintenance.housekeeping import expire_offers
from mailagent.workflows.tools.accept_offer import accept_offer
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, GRACE, MONA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.web.console.drafts import SPENT
from tests.workflows.camera import click
from tests.workflows.moves import person_move, reply_move
from tests.workflows.paying import pay, tell
from tests.workflows.proposals import propose, write

OFFER = Fact("offer/W1001")
SECOND = timedelta(seconds=1)
OFFERS = KeepOffers({RefundReason.DAMAGED: 30}, {"kitchen": 40})
MUGS = {"item_id": "M1", "name": "Mug", "quantity": 3, "unit_price": "10.00"}
PAID = {"payment_id": "p", "method": "card", "amount": "30.00"}


@pytest.fixture
def generous(shop: Harness) -> Harness:
    shop.stock(order())
    rules = Policy(keep_offers=OFFERS)
    services.bind(replace(shop.live, policy=rules))
    return shop


def make_offer(shop: Harness, order_id: str = "W1001", **changes: Any) -> None:
    """Have the customer ask for a refund, and get a mail with an offer."""
    asked = write(shop, **changes)
    assert propose(asked, order_id)["outcome"] == "offered"
    answered(asked, order_id)


def answered(batch: Batch, order_id: str = "W1001") -> None:
    """Send the answer that tells the offer."""
    (outbound_id,) = write_reply(batch, reply_move(batch, Fact(f"offer/{order_id}")), SPENT)[
        "outbound_ids"
    ]
    assert send_mail(outbound_id) == "sent"


def accept(batch: Batch, order_id: str = "W1001") -> dict[str, Any]:
    return use(accept_offer, batch, {"order_id": order_id})


def answer(shop: Harness, text: str = "Yes, please.", **changes: Any) -> Batch:
    """Have the customer write once more, in a thread of its own."""
    return write(
        shop,
        subject=f"Answer {len(shop.rows('SELECT 1 FROM inbound_mails'))}",
        text=text,
        **changes,
    )


def offered(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM offers ORDER BY offered_at")


def last_moment(shop: Harness) -> datetime:
    with shop.live.database.snapshot() as connection:
        (offer,) = offers.list_of_order(connection, "W1001")
    return offer.expires_at


def go_to(moment: datetime) -> None:
    services.bind(replace(services.current(), now=lambda: moment))


def later(shop: Harness, **passed: int) -> None:
    """Let time pass."""
    now = services.current().now()
    services.bind(replace(services.current(), now=lambda: now + timedelta(**passed)))


@ONE_DATABASE
def test_an_older_mail_does_not_decline_what_is_offered_for_a_newer_one(generous: Harness) -> None:
    older = write(generous, subject="One")
    make_offer(generous, subject="Two")
    assert propose(older, "W1001")["outcome"] == "offered"  # its run had failed, and is replayed
    assert [row.status for row in offered(generous)] == ["open"]
    assert generous.refunds() == ()


def test_part_of_the_price_is_offered_first_and_paid_when_it_is_accepted(generous: Harness) -> None:
    first = write(generous)
    told = propose(first, "W1001")
    assert (told["outcome"], told["amount"], told["facts"]) == (
        "offered",
        "14.99 USD",
        ["offer/W1001"],
    )
    assert propose(first, "W1001") == told  # replayed
    assert not generous.refunds()
    answered(first)
    yes = answer(generous)
    accepted = accept(yes)
    assert accepted["outcome"] == "accepted"
    assert accept(yes) == accepted  # replayed
    assert accept(answer(generous)) == accepted  # a second answer
    (refund,) = generous.refunds()
    assert (refund.amount.minor, refund.status, refund.decided_by) == (
        14_99,
        RefundStatus.APPROVED,
        "policy",
    )
    assert refund.reason is RefundReason.DAMAGED
    (row,) = offered(generous)
    assert (row.status, row.refund_id) == ("accepted", refund.refund_id)
    acts = generous.rows(
        "SELECT action, actor FROM audit WHERE action LIKE '%offer%' ORDER BY audit_id"
    )
    assert [each.action for each in acts] == [
        "part of the price offered",
        "offer told",
        "offer accepted",
    ]
    assert acts[1].actor == audit.AGENT


def test_items_that_are_kept_need_not_come_back(generous: Harness) -> None:
    first = ReturnFirst(frozenset({RefundReason.DAMAGED}), "Send it to 1 Shop Street.")
    services.bind(replace(generous.live, policy=Policy(keep_offers=OFFERS, return_first=first)))
    make_offer(generous)
    accept(answer(generous))
    assert generous.rows("SELECT 1 FROM remedies") == []
    assert pay(generous.refunds()[0].refund_id)["status"] == "paid"


def test_items_that_are_kept_need_not_come_back_after_a_managers_approval_either(
    generous: Harness,
) -> None:
    first = ReturnFirst(frozenset({RefundReason.DAMAGED}), "Send it to 1 Shop Street.")
    make_offer(generous)
    rules = Policy({"USD": 1}, keep_offers=OFFERS, return_first=first)
    services.bind(replace(generous.live, policy=rules))
    accept(answer(generous))
    assert generous.refunds()[0].status == "awaiting_approval"
    click(generous, "approve")
    assert generous.rows("SELECT 1 FROM remedies") == []
    assert pay(generous.refunds()[0].refund_id)["status"] == "paid"


def test_the_shipping_is_not_refunded_while_the_customer_keeps_an_item(generous: Harness) -> None:
    mug = {"item_id": "M1", "name": "Mug", "quantity": 1, "unit_price": "5.00"}
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "100.00"}
    paid = {"payment_id": "p", "method": "card", "amount": "155.00"}
    generous.stock(order(items=[mug, kettle], shipping="50.00", payments=[paid]))
    asked = write(generous)
    propose(asked, "W1001", ("M1", None))
    answered(asked)
    accept(answer(generous))
    propose(answer(generous), "W1001", ("K1", None), reason="changed_mind")
    assert [each.amount.minor for each in generous.refunds()] == [1_50, 100_00]


def test_many_answers_at_once_refund_once(generous: Harness) -> None:
    make_offer(generous)
    answers = [answer(generous) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        outcomes = {each["outcome"] for each in pool.map(accept, answers)}
    assert (outcomes, len(generous.refunds())) == ({"accepted"}, 1)


def test_asking_for_the_refund_declines_the_offer_and_no_second_one_is_made(
    generous: Harness,
) -> None:
    propose(write(generous), "W1001")
    assert propose(answer(generous, "No, I want it all back."), "W1001")["outcome"] == "approved"
    assert [row.status for row in offered(generous)] == ["declined"]
    assert accept(answer(generous))["outcome"] == "closed"
    assert [each.amount.minor for each in generous.refunds()] == [49_99]


def test_the_model_cannot_accept_before_the_customer_has_answered(generous: Harness) -> None:
    asked = write(generous)
    propose(asked, "W1001")
    assert accept(asked)["error"] == "not_answered"
    assert not generous.refunds()


@ONE_DATABASE
def test_a_second_mail_before_the_answer_accepts_nothing(generous: Harness) -> None:
    first = write(generous)
    propose(first, "W1001")
    both = write(generous, text="Any news?", in_reply_to=first_message_id(generous))
    assert set(first["mail_ids"]) < set(both["mail_ids"])
    assert accept(both)["error"] == "not_answered"


def test_no_other_thread_accepts_what_no_mail_has_told(generous: Harness) -> None:
    first = write(generous)
    propose(first, "W1001")
    for text in ("Hello? Did you get my mail?", "Yes!"):
        assert accept(answer(generous, text))["error"] == "not_answered"
    (outbound_id,) = write_reply(first, reply_move(first, OFFER), SPENT)["outbound_ids"]
    assert accept(answer(generous))["error"] == "not_answered"  # written, not sent
    early = answer(generous)
    assert send_mail(outbound_id) == "sent"
    assert accept(early)["error"] == "not_answered"
    assert not generous.refunds()
    assert accept(answer(generous))["outcome"] == "accepted"


@ONE_DATABASE
def test_any_mail_that_tells_the_offer_makes_it_one_to_accept(generous: Harness) -> None:
    propose(write(generous), "W1001")  # its answer is a draft that no person sends
    answered(answer(generous, "What about my kettle?"))
    assert accept(answer(generous))["outcome"] == "accepted"


def answered_by_person(shop: Harness, batch: Batch) -> str:
    """Have a person send a draft in words of their own; return the text of the mail."""
    with shop.live.database.transaction() as connection:
        reader = batch_reader(connection, batch)
        letter = letter_by_person(reader, "Keep it, and we give you something back.")
        outbound_id = mailers.write_reply(reader, reader.mails, letter, by_person=True)
    assert send_mail(outbound_id) == "sent"
    return shop.mails_to(ADA)[-1].text


@ONE_DATABASE
def test_a_draft_that_a_person_words_anew_has_the_offer_on_record(generous: Harness) -> None:
    first = write(generous)
    propose(first, "W1001")
    assert "Our offer: $14.99 back" in answered_by_person(generous, first)
    assert accept(answer(generous))["outcome"] == "accepted"


@pytest.mark.both_databases
@pytest.mark.parametrize("why", ["CUSTOMER_ASKED", "REPLY_NOT_TRUE"])
def test_in_draft_mode_a_mail_that_nobody_sends_tells_no_offer(generous: Harness, why: str) -> None:
    services.bind(replace(services.current(), draft_replies=DraftReplies.ALL))
    first = write(generous)
    propose(first, "W1001")
    told = hand_over(first, person_move(why))[0]
    (written,) = generous.rows("SELECT text FROM outbound_mails WHERE outbound_id = :id", id=told)
    later(generous, minutes=1)
    assert send_mail(told) == "sent"  # written again
    later(generous, seconds=1)
    for text in (written.text, generous.mails_to(ADA)[-1].text):
        assert ("On record for order W1001" in text, "Our offer" in text) == (True, False)
    assert accept(answer(generous))["error"] == "not_answered"
    assert "Our offer: $14.99 back" in answered_by_person(generous, answer(generous, "W1001?"))
    later(generous, seconds=1)
    assert accept(answer(generous))["outcome"] == "accepted"


def first_message_id(shop: Harness) -> str:
    return str(shop.rows("SELECT message_id FROM inbound_mails ORDER BY received_at")[0].message_id)


@ONE_DATABASE
def test_a_yes_can_mean_one_offer_only(generous: Harness) -> None:
    generous.stock(
        order("W2", items=[MUGS, MUGS | {"item_id": "M2"}], payments=[PAID | {"amount": "60.00"}])
    )
    asked = write(generous)
    assert propose(asked, "W2", ("M1", None))["outcome"] == "offered"
    answered(asked, "W2")
    told = propose(answer(generous, "The other mugs are broken, too."), "W2", ("M2", None))
    assert told["outcome"] == "approved"
    accept(answer(generous), "W2")
    assert [("M1" in str(row.items), row.status) for row in offered(generous)] == [
        (True, "accepted")
    ]


@pytest.mark.both_databases
@pytest.mark.both_databases
def test_who_wants_nothing_any_more_withdraws_the_offer_and_hears_so(generous: Harness) -> None:
    make_offer(generous)
    never_mind = answer(generous, "Never mind, I keep it as it is.")
    told = use(withdraw_refund, never_mind, {"order_id": "W1001"})
    assert (told["outcome"], told["facts"]) == ("withdrawn", ["offer/W1001"])
    assert use(withdraw_refund, never_mind, {"order_id": "W1001"}) == told  # replayed
    assert [each.status for each in offered(generous)] == ["declined"]
    with generous.live.database.transaction() as connection:
        fact = batch_reader(connection, never_mind).find("offer/W1001")
    assert fact is not None
    assert "does not stand any more" in sentence(fact)
    later = answer(generous)
    assert accept(later)["outcome"] == "closed"
    assert use(withdraw_refund, later, {"order_id": "W1001"})["outcome"] == "nothing_waits"


def test_the_housekeeping_closes_offers_past_their_date(generous: Harness) -> None:
    now = services.current().now()
    make_offer(generous)
    last = last_moment(generous)
    assert last == end_of_day(now + timedelta(days=OFFERS.valid_days))
    go_to(last - SECOND)
    assert expire_offers() == 0
    go_to(last)
    assert (expire_offers(), expire_offers()) == (1, 0)
    assert [row.status for row in offered(generous)] == ["expired"]
    acts = generous.rows("SELECT actor, action FROM audit WHERE action LIKE 'offer expired'")
    assert [(row.actor, row.action) for row in acts] == [("clock", "offer expired")]
    told = accept(answer(generous))
    assert (told["outcome"], told["facts"]) == ("closed", ["offer/W1001"])


@pytest.mark.parametrize(("seconds", "outcome"), [(-1, "accepted"), (0, "closed")])
def test_an_offer_ends_with_its_last_day(generous: Harness, seconds: int, outcome: str) -> None:
    make_offer(generous)
    go_to(last_moment(generous) + seconds * SECOND)
    yes = answer(generous)
    assert accept(yes)["outcome"] == outcome
    assert len(generous.refunds()) == (outcome == "accepted")


def test_a_yes_in_time_is_accepted_even_if_it_is_worked_on_later(generous: Harness) -> None:
    make_offer(generous)
    go_to(last_moment(generous) - SECOND)
    yes = answer(generous)
    later(generous, hours=8)
    assert expire_offers() == 1
    assert use(look_at_order, yes, {"order_id": "W1001"})["offer"]
    assert accept(yes)["outcome"] == "accepted"
    assert [each.status for each in generous.refunds()] == [RefundStatus.APPROVED]
    assert [row.status for row in offered(generous)] == ["accepted"]


@ONE_DATABASE
def test_a_mail_from_before_the_offer_does_not_accept_it_in_time(generous: Harness) -> None:
    waits = generous.write("Which colours are there?", subject="Colours")
    later(generous, minutes=1)
    make_offer(generous)
    go_to(last_moment(generous))
    yes = write(generous, text="Yes!", subject="Colours", in_reply_to=waits.message_id)
    assert len(yes["mail_ids"]) == 2
    assert accept(yes)["outcome"] == "closed"


@ONE_DATABASE
def test_a_yes_in_time_counts_for_the_return_window_too(generous: Harness) -> None:
    delivered_at = generous.live.now() - timedelta(days=30)
    placed_at = delivered_at - timedelta(days=3)
    generous.stock(order(delivered_at=delivered_at.isoformat(), placed_at=placed_at.isoformat()))
    make_offer(generous)
    yes = answer(generous)
    go_to(last_moment(generous) + SECOND)
    assert accept(yes)["outcome"] == "accepted"


@ONE_DATABASE
def test_a_managers_offer_ends_with_its_last_day(generous: Harness) -> None:
    generous.stock(order(status="shipped", delivered_at=None))
    assert propose(write(generous), "W1001")["outcome"] == "needs_manager"
    now = services.current().now()
    click(generous, "offer", offer_percent="30")
    assert last_moment(generous) == end_of_day(now + timedelta(days=OFFERS.valid_days))


@pytest.mark.parametrize("cancelled_later", [False, True])
def test_a_managers_offer_is_paid_although_they_knew_that_the_order_is_cancelled(
    generous: Harness, cancelled_later: bool
) -> None:
    """An order that is cancelled only after the customer has accepted is another matter."""
    known = order(status="delivered" if cancelled_later else "cancelled")
    generous.stock(known)
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, keep_offers=OFFERS)))
    assert propose(write(generous), "W1001")["outcome"] == "needs_manager"
    click(generous, "offer", offer_percent="30", order_status=known.status.value)
    (told,) = tell(generous.refunds()[-1].refund_id)
    assert send_mail(told) == "sent"
    assert accept(answer(generous))["outcome"] == "accepted"
    if cancelled_later:
        generous.stock(order(status="cancelled"))
    refund = generous.refunds()[-1]
    assert refund.decided_by == MONA
    assert pay(refund.refund_id)["status"] == ("failed" if cancelled_later else "paid")


@ONE_DATABASE
def test_an_offer_is_a_managers_once_one_has_not_sent_the_goods_again(generous: Harness) -> None:
    rules = Policy(keep_offers=OFFERS, limits={"USD": 20_00})
    services.bind(replace(generous.live, policy=rules))
    make_offer(generous)
    items = [{"item_id": "K1", "quantity": 1}]
    wish = {"order_id": "W1001", "items": items, "reason": "damaged", "kind": "replacement"}
    assert use(request_change, answer(generous), wish | {"wish": None})["outcome"] == "task"
    (task,) = generous.rows("SELECT remedy_id FROM remedies")
    with generous.live.database.transaction() as connection:
        assert finish(connection, task.remedy_id, MONA, False, "The photo is not of our kettle.")
    accept(answer(generous))
    (refund,) = generous.refunds()
    reasons = ("not_sent_again_before",)
    assert (refund.status, refund.policy_reasons) == (RefundStatus.AWAITING_APPROVAL, reasons)


@ONE_DATABASE
@pytest.mark.parametrize(("refunded", "left"), [("55.00", 15_00), ("55.01", 14_99)])
@pytest.mark.parametrize("is_a_reason", [False, True])
def test_a_manager_is_asked_again_if_less_is_left_than_they_have_offered(
    generous: Harness, refunded: str, left: int, is_a_reason: bool
) -> None:
    """Although they knew what was refunded elsewhere, and perhaps were asked because of it: the rest was
    refunded here, for another item."""
    elsewhere, paid = ("50.00", "120.00") if is_a_reason else ("40.00", "110.00")
    lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "60.00"}
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "50.00"}
    payment = BOUGHT | {"amount": paid, "refunded": elsewhere}
    generous.stock(order(items=[kettle, lamp], payments=[payment]))
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, keep_offers=OFFERS)))
    assert propose(write(generous), "W1001", ("K1", 1))["outcome"] == "needs_manager"
    click(generous, "offer", offer_percent="30")
    (told,) = tell(generous.refunds()[-1].refund_id)
    assert send_mail(told) == "sent"
    assert propose(answer(generous), "W1001", ("L1", 1))["outcome"] == "needs_manager"
    click(generous, "approve", amount=refunded)
    accept(answer(generous))
    refund = generous.refunds()[-1]
    assert refund.amount.minor == left
    assert refund.status == ("approved" if left == 15_00 else "awaiting_approval")


@ONE_DATABASE
def test_an_offer_ends_with_the_return_period(generous: Harness) -> None:
    rules = Policy(keep_offers=OFFERS, return_window_days=12)
    services.bind(replace(generous.live, policy=rules))
    make_offer(generous)
    (row,) = offered(generous)
    delivered_at = order().delivered_at
    assert delivered_at is not None
    assert str(row.expires_at)[:10] == str(delivered_at + timedelta(days=12))[:10]


@pytest.mark.parametrize(
    ("change", "status", "amount"),
    [
        ({"status": "cancelled"}, RefundStatus.AWAITING_APPROVAL, 14_99),
        ({"items": [{"item_id": "X1", "name": "Else", "quantity": 1, "unit_price": "49.99"}]}, None, 0),
        ({"items": [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "14.98"}]}, None, 0),
        ({"payments": [PAID | {"refunded": "30.00"}]}, None, 0),
        ({"payments": [PAID | {"refunded": "20.00"}]}, RefundStatus.AWAITING_APPROVAL, 10_00),
        ({"payments": [PAID | {"charged_back_at": "2026-11-10T09:00:00Z"}]}, None, 0),
        ({"customer": {"email": GRACE, "name": "Grace"}}, None, 0),
    ],
    ids=["cancelled", "another item", "a lower price", "refunded elsewhere", "less is left", "charged back",
         "another's"],
)  # fmt: skip
def test_an_order_that_changed_meanwhile_pays_no_more_than_it_may(
    generous: Harness, change: dict[str, Any], status: RefundStatus | None, amount: int
) -> None:
    make_offer(generous)
    generous.stock(order(**change))
    accept(answer(generous))
    found = [(each.status, each.amount.minor) for each in generous.refunds()]
    assert found == ([(status, amount)] if status else [])


BOUGHT = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}


@ONE_DATABASE
@pytest.mark.parametrize(
    ("change", "is_open"),
    [
        ({"payments": [BOUGHT | {"refunded": "49.99"}]}, False),
        ({"payments": [BOUGHT | {"refunded": "35.01"}]}, False),
        ({"payments": [BOUGHT | {"refunded": "35.00"}]}, True),
        ({"payments": [BOUGHT | {"charged_back_at": "2026-11-10T09:00:00Z"}]}, False),
        ({"status": "cancelled"}, False),
        ({"items": [MUGS | {"unit_price": "16.66"}]}, False),
    ],
    ids=[
        "refunded",
        "a cent is missing",
        "enough is left",
        "charged back",
        "cancelled",
        "other items",
    ],
)
def test_no_mail_promises_what_the_order_has_not_left(
    generous: Harness, change: dict[str, Any], is_open: bool
) -> None:
    make_offer(generous)
    generous.stock(order(**change))
    asked = answer(generous, "What about W1001 now?")
    (outbound_id,) = write_reply(asked, reply_move(asked, OFFER), SPENT)["outbound_ids"]
    (row,) = generous.rows(
        "SELECT text FROM outbound_mails WHERE outbound_id = :id", id=outbound_id
    )
    assert ("Then we refund $14.99" in row.text, "Our offer: $14.99" in row.text) == (
        is_open,
        is_open,
    )
    assert ("$14.99 for order W1001 does not stand any more" in row.text) is not is_open
    looked = use(look_at_order, answer(generous), {"order_id": "W1001"})
    assert ("offer/W1001" in looked["facts"]) is is_open


def test_units_that_were_refunded_meanwhile_end_the_offer(generous: Harness) -> None:
    generous.stock(order("W2", items=[MUGS], payments=[PAID]))
    asked = write(generous, subject="mugs")
    propose(asked, "W2", ("M1", 2))
    answered(asked, "W2")
    changed = propose(answer(generous), "W2", ("M1", 3), reason="changed_mind")
    assert changed["outcome"] == "approved"
    assert accept(answer(generous), "W2")["outcome"] == "closed"
    assert [each.amount.minor for each in generous.refunds()] == [30_00]


@ONE_DATABASE
@pytest.mark.parametrize(
    ("items", "reason", "percent"),
    [
        ([MUGS], "damaged", 30),
        ([MUGS | {"category": "Kitchen"}], "damaged", 40),
        ([MUGS | {"category": "garden"}], "damaged", 30),
        ([MUGS], "changed_mind", None),
    ],
)
def test_the_policy_says_for_what_and_how_much(
    generous: Harness, items: list[dict[str, Any]], reason: str, percent: int | None
) -> None:
    generous.stock(order("W2", items=items, payments=[PAID]))
    told = propose(write(generous), "W2", ("M1", None), reason=reason)
    assert told.get("percent") == percent
    assert told["outcome"] == ("offered" if percent else "approved")


@ONE_DATABASE
def test_what_the_policy_would_not_pay_at_once_is_not_offered(generous: Harness) -> None:
    rules = Policy(keep_offers=OFFERS, limits={"USD": 14_98})
    services.bind(replace(generous.live, policy=rules))
    assert propose(write(generous), "W1001")["outcome"] == "needs_manager"
    assert offered(generous) == []


@ONE_DATABASE
def test_an_offer_is_not_told_to_others(generous: Harness) -> None:
    make_offer(generous)
    told = accept(write(generous, GRACE, subject="Mine"))
    assert told == accept(write(generous, GRACE, subject="Again"), "W9999") | {
        "facts": ["no_order/W1001"]
    }
    assert accept({**answer(generous), "verified": False})["error"] == "sender_not_verified"
    assert accept(answer(generous), "W1001")["outcome"] == "accepted"


@ONE_DATABASE
def test_an_order_without_an_offer_says_so(generous: Harness) -> None:
    assert accept(answer(generous))["error"] == "no_offer"


def test_a_letter_asks_an_answer_accepts(busy_shop: Harness) -> None:
    rules = Policy(keep_offers=OFFERS)
    services.bind(replace(busy_shop.live, policy=rules))
    busy_shop.stock(order())
    busy_shop.write("My kettle from order W1001 arrived broken. I want my money back.")
    (offer,) = busy_shop.wait_for_mails(ADA)
    assert "order W1001 back: 1 × Kettle. Then we refund $14.99, which is 30%." in offer.text
    record = offer.text[offer.text.index("On record for order W1001") :]
    assert "\nRefunded: nothing\nOur offer: $14.99 back if you keep the items, until " in record
    busy_shop.write("Yes, that is fine.", in_reply_to=offer.message_id, subject="Re: My kettle")
    refund = busy_shop.wait_for_refund("paid")
    assert refund.amount.minor == 14_99


@ONE_DATABASE
def test_the_console_shows_an_offer_and_what_it_became(generous: Harness) -> None:
    asked = write(generous)
    propose(asked, "W1001")
    page = generous.log_in(TESS).get(f"/ops/conversations/{asked['conversation_id']}").text
    assert "Offered $14.99 (30 %) if they keep the items" in page
    assert "part of the price offered" in page.lower()
    answered(asked)
    accept(answer(generous))
    (refund,) = generous.refunds()
    client = generous.log_in(TESS)
    page = client.get(f"/ops/conversations/{asked['conversation_id']}").text
    assert f'<a href="/ops/refunds/{refund.refund_id}">its refund</a>' in page
    page = client.get(f"/ops/refunds/{refund.refund_id}").text
    assert (
        "<dt>Accepted offer</dt><dd><bdi>30 % of the price, offered by the policy</bdi></dd>"
        in page
    )
