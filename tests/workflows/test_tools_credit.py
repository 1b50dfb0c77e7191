"""Store credit instead of money: chosen after it was offered, given once, never beside money."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mailagent import services
from mailagent.domain.mail.message import OutboundStatus
from mailagent.domain.refunds.policy import Policy, ReturnFirst, StoreCredit
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.refunds.settlement import Outcome, SettlementState
from mailagent.mailers.fact import sentence
from mailagent.settling import settle
from mailagent.store import audit
from mailagent.store.refunds import credits
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.propose_refund import propose_refund
from mailagent.workflows.tools.tool import Misfit
from tests.cast import OLGA, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.told import record_told
from tests.tool_calls import parse
from tests.tool_use import use
from tests.workflows.camera import LENS, STRAPS, camera_order
from tests.workflows.paying import pay, tell, two_payments
from tests.workflows.proposals import write

RULES = Policy(store_credit=StoreCredit(10))


def with_rules(shop: Harness, policy: Policy = RULES) -> Harness:
    services.bind(replace(shop.live, policy=policy))
    return shop


@pytest.fixture
def crediting(shop: Harness) -> Harness:
    shop.stock(big_order())
    return with_rules(shop)


DESK: dict[str, Any] = {"percent": 10, "units": {"D1": 1}}


def offered(shop: Harness, order_id: str = "W2001", **details: Any) -> None:
    """The customer has read that they may choose store credit for the newest refund, or for a kettle."""
    known = [each.refund_id for each in shop.refunds() if each.order_id == order_id]
    what = {"refund_id": known[-1]} if known else {"units": {"K1": 1}}
    with shop.live.database.transaction() as connection:
        record_told(
            connection, audit.CREDIT_OFFERED, order_id, **({"percent": 10} | what | details)
        )


def ask(
    batch: Batch, pay_as: str | None, order_id: str = "W2001", item: str = "D1"
) -> dict[str, Any]:
    """Propose a refund as the model does: its arguments fit the schema of the policy."""
    policy = services.current().policy
    wish: dict[str, Any] = {
        "order_id": order_id,
        "items": [{"item_id": item, "quantity": None}],
        "reason": "damaged",
    }
    if policy.store_credit:
        wish["pay_as"] = pay_as
    call = parse("propose_refund", json.dumps(wish), policy)
    assert not isinstance(call, Misfit), call.output
    return use(propose_refund, batch, call.model_dump(mode="json"))


def answer(shop: Harness, text: str = "Store credit, please.") -> Batch:
    number = len(shop.rows("SELECT 1 FROM inbound_mails"))
    return write(shop, subject=f"Answer {number}", text=text)


def test_the_model_may_choose_only_where_the_policy_offers_it() -> None:
    for policy, expected in ((RULES, True), (Policy(), False)):
        (schema,) = [each for each in registry.schemas(policy) if each["name"] == "propose_refund"]
        assert ("pay_as" in schema["parameters"]["properties"]) is expected


def is_money(shop: Harness, told: dict[str, Any]) -> bool:
    """Whether a manager is asked for money, and the customer is offered store credit."""
    assert (told["outcome"], told["facts"]) == (
        "needs_manager",
        ["refund/W2001", "store_credit/W2001"],
    )
    (refund,) = shop.refunds()
    return refund.credit_bonus is None


def test_nobody_gets_store_credit_before_they_were_offered_it(crediting: Harness) -> None:
    batch = answer(crediting)
    for _ in range(2):  # replayed
        assert is_money(crediting, ask(batch, "store_credit"))
    offered(crediting)
    assert ask(answer(crediting, "Yes, please."), "store_credit")["outcome"] == "already_requested"
    (refund,) = crediting.refunds()
    assert (refund.credit_bonus, refund.mail_id) == (10, batch["mail_ids"][-1])


def test_a_refund_without_a_manager_waits_for_the_answer_to_the_offer(shop: Harness) -> None:
    shop.stock(order())
    with_rules(shop)
    batch = answer(shop)
    told = ask(batch, "store_credit", "W1001", "K1")
    assert (told["error"], told["facts"]) == ("store_credit_not_offered", ["store_credit/W1001"])
    assert not shop.refunds()
    offered(shop, "W1001")
    assert ask(answer(shop), "store_credit", "W1001", "K1")["outcome"] == "approved"
    assert shop.refunds()[0].credit_bonus == 10


def test_the_amount_of_another_refund_is_not_offered_for_these_items(shop: Harness) -> None:
    shop.stock(camera_order())
    with_rules(shop, replace(RULES, limits={"USD": 200_00}))
    lens = ask(write(shop, subject="Lens"), "money", "W1010", LENS)
    assert lens["outcome"] == "needs_manager"
    strap = answer(shop, "A strap broke. Store credit, please.")
    strap_wish = {"item_id": STRAPS, "quantity": 1}
    wish = {"order_id": "W1010", "items": [strap_wish], "reason": "damaged"}
    told = use(propose_refund, strap, wish | {"pay_as": "store_credit"})
    assert (told["error"], told["facts"]) == ("store_credit_not_offered", ["store_credit/W1010"])
    for batch, is_told in ((strap, False), (answer(shop, "Could my lens be credit?"), True)):
        with shop.live.database.snapshot() as connection:
            fact = batch_reader(connection, batch).find("store_credit/W1010")
        assert fact is not None
        assert ("$528.00" in sentence(fact)) is is_told


def test_an_offer_after_the_mail_is_no_choice(crediting: Harness) -> None:
    batch = answer(crediting)
    with crediting.live.database.transaction() as connection:
        later = services.current().now() + timedelta(hours=1)
        record_told(connection, audit.CREDIT_OFFERED, "W2001", later, **DESK)
    assert is_money(crediting, ask(batch, "store_credit"))


def test_an_offer_in_a_mail_that_was_not_sent_is_no_choice(crediting: Harness) -> None:
    with crediting.live.database.transaction() as connection:
        for status in set(OutboundStatus) - {OutboundStatus.SENT}:
            record_told(connection, audit.CREDIT_OFFERED, "W2001", status=status, **DESK)
    assert is_money(crediting, ask(answer(crediting), "store_credit"))


@pytest.mark.both_databases
def test_who_answers_the_offer_has_read_it(crediting: Harness) -> None:
    with crediting.live.database.transaction() as connection:
        status = OutboundStatus.UNKNOWN
        read = record_told(connection, audit.CREDIT_OFFERED, "W2001", status=status, **DESK)
    batch = write(crediting, text="Store credit, please.", in_reply_to=read)
    assert ask(batch, "store_credit")["outcome"] == "needs_manager"


@pytest.mark.both_databases
def test_a_refund_that_waits_changes_with_the_customers_mind(crediting: Harness) -> None:
    told = ask(write(crediting, text="My desk broke."), "money")
    assert told["facts"] == ["refund/W2001", "store_credit/W2001"]
    offered(crediting)
    choice = answer(crediting)
    told = ask(choice, "store_credit")
    assert (told["outcome"], told["facts"]) == ("already_requested", ["refund/W2001"])
    assert ask(choice, "store_credit") == told  # replayed
    (refund,) = crediting.refunds()
    assert (refund.credit_bonus, refund.amount.minor) == (10, 1499_00)
    # Once chosen, a new policy changes nothing; and the customer may go back to money.
    with_rules(crediting, Policy(store_credit=StoreCredit(50)))
    ask(choice, "store_credit")
    assert crediting.refunds()[0].credit_bonus == 10
    ask(answer(crediting, "I'd rather have the money."), "money")
    assert crediting.refunds()[0].credit_bonus is None
    acts = crediting.rows("SELECT action FROM audit WHERE action LIKE '% chosen' ORDER BY audit_id")
    assert [each.action for each in acts] == ["store credit chosen", "money chosen"]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("old", "new", "bonus"), [("store_credit", "money", None), ("money", "store_credit", 10)]
)
def test_an_older_mail_does_not_change_what_a_newer_one_chose(
    crediting: Harness, old: str, new: str, bonus: int | None
) -> None:
    ask(write(crediting, text="My desk broke."), "no_choice")
    offered(crediting)
    older = write(crediting, subject="One", text="My first choice.")
    ask(answer(crediting), "store_credit")
    newer = write(crediting, subject="Two", text="My second choice.")
    ask(newer, new)
    ask(older, old)  # its run had failed, and is replayed
    assert crediting.refunds()[0].credit_bonus == bonus


@ONE_DATABASE
def test_an_older_mail_does_not_change_what_a_newer_one_wants_to_stay(crediting: Harness) -> None:
    ask(write(crediting, text="My desk broke."), "no_choice")
    offered(crediting)
    older = write(crediting, subject="One", text="Store credit, please.")
    newer = write(crediting, subject="Two", text="No, money after all.")
    for _ in range(2):  # a step that is done again
        ask(newer, "money")
    ask(older, "store_credit")  # its run had failed, and is replayed
    assert crediting.refunds()[0].credit_bonus is None
    assert len(crediting.rows("SELECT 1 FROM audit WHERE action LIKE '% chosen'")) == 1


@ONE_DATABASE
def test_a_refund_stays_store_credit_if_the_newest_mail_chooses_nothing(
    crediting: Harness,
) -> None:
    ask(write(crediting, text="My desk broke."), "no_choice")
    assert crediting.refunds()[0].credit_bonus is None
    offered(crediting)
    ask(answer(crediting), "store_credit")
    told = ask(answer(crediting, "Any news on my refund of the desk?"), "no_choice")
    assert told["outcome"] == "already_requested"
    assert crediting.refunds()[0].credit_bonus == 10
    acts = crediting.rows("SELECT action FROM audit WHERE action LIKE '% chosen'")
    assert [each.action for each in acts] == ["store credit chosen"]


def test_goods_that_come_back_first_leave_time_to_choose(shop: Harness) -> None:
    shop.stock(order())
    first = ReturnFirst(frozenset({RefundReason.DAMAGED}), "Send it back.")
    with_rules(shop, replace(RULES, return_first=first))
    told = ask(write(shop), "money", "W1001", "K1")
    assert told["facts"] == ["refund/W1001", "store_credit/W1001"]
    offered(shop, "W1001")
    ask(answer(shop), "store_credit", "W1001", "K1")
    (refund,) = shop.refunds()
    assert (refund.status, refund.credit_bonus) == (RefundStatus.APPROVED, 10)


@pytest.mark.both_databases
def test_credit_that_could_be_given_in_part_only_reaches_the_customer(shop: Harness) -> None:
    shop.stock(two_payments())
    with_rules(shop)
    offered(shop, "W1001")
    ask(answer(shop), "store_credit", "W1001", "K1")
    (refund,) = shop.refunds()
    assert pay(refund.refund_id)["status"] == "approved"
    outcomes = (
        Outcome(refund.refund_id, SettlementState.SETTLED, "CODE-17"),
        Outcome(f"{refund.refund_id}.2", SettlementState.FAILED, reason="no more codes"),
    )
    with shop.live.database.transaction() as connection:
        for outcome in outcomes:
            settle(connection, outcome, OLGA)
    assert pay(refund.refund_id)["status"] == "failed"
    tell(refund.refund_id)
    query = "SELECT text, html FROM outbound_mails WHERE purpose = 'refund_outcome'"
    (told,) = shop.rows(query)
    assert "- Store credit: $22.00\n  Your code: CODE-17" in told.text
    assert "CODE-17" in told.html
    for text in (told.text, told.html):
        assert "For a part of it you got store credit of $22.00; the rest was not paid." in text
        assert "Refunded: store credit of $22.00" in text  # on record
        assert "$20.00" not in text
    with shop.live.database.snapshot() as connection:
        fact = batch_reader(connection, answer(shop)).find("refund/W1001")
    assert fact is not None
    assert "you got store credit of $22.00. A colleague sees to the rest." in sentence(fact)
    (case,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'hand_over'")
    assert "20.00 USD was given as 22.00 USD of store credit (CODE-17)" in case.text
    assert "29.99 USD was NOT given as 32.98 USD of store credit (no more codes)" in case.text


def test_a_refund_whose_gateway_was_asked_stays_as_it_is(shop: Harness) -> None:
    shop.stock(order())
    with_rules(shop)
    assert ask(write(shop), "money", "W1001", "K1")["facts"] == ["refund/W1001"]  # no time left
    (refund,) = shop.refunds()
    pay(refund.refund_id)
    offered(shop, "W1001")
    assert ask(answer(shop), "store_credit", "W1001", "K1")["outcome"] == "already_requested"
    (after,) = shop.refunds()
    assert (after.status, after.credit_bonus) == (RefundStatus.PAID, None)
    with shop.live.database.snapshot() as connection:
        assert not credits.can_change(connection, replace(after, status=RefundStatus.APPROVED))


@pytest.mark.both_databases
def test_once_all_is_refunded_there_is_no_choice(shop: Harness) -> None:
    shop.stock(order(shipping="5.00"))
    with_rules(shop)
    looked = use(look_at_order, answer(shop), {"order_id": "W1001"})
    assert "store_credit/W1001" in looked["facts"]
    ask(write(shop), "no_choice", "W1001", "K1")
    pay(shop.refunds()[0].refund_id)
    later = answer(shop, "Could I have store credit instead?")
    looked = use(look_at_order, later, {"order_id": "W1001"})
    assert ("store_credit/W1001" in looked["facts"], looked["store_credit"]) == (
        False,
        "no choice: nothing is left to refund",
    )
    told = ask(later, "store_credit", "W1001", "K1")
    assert (told["outcome"], told["facts"]) == ("already_requested", ["refund/W1001"])
    with shop.live.database.snapshot() as connection:
        assert batch_reader(connection, later).find("store_credit/W1001") is None


@ONE_DATABASE
def test_nobody_gets_store_credit_for_the_last_of_an_order_before_they_were_offered_it(
    shop: Harness,
) -> None:
    shop.stock(order())
    with_rules(shop)
    ask(write(shop), "no_choice", "W1001", "K1")  # approved, and about to be paid
    assert ask(answer(shop), "store_credit", "W1001", "K1")["outcome"] == "already_requested"
    assert shop.refunds()[0].credit_bonus is None


@ONE_DATABASE
def test_a_shop_without_store_credit_changes_nothing(shop: Harness) -> None:
    shop.stock(big_order())
    offered(shop)
    told = ask(write(shop, text="My desk broke."), None)
    assert told["facts"] == ["refund/W2001"]
    assert shop.refunds()[0].credit_bonus is None
