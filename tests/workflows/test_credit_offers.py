"""An offer of store credit holds for what it was told for, and keeps the bonus that it told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.demo.scripted_model import Fact
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.policy import Policy, StoreCredit
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.refunds.settlement import Outcome, SettlementState
from mailagent.mailers.fact import sentence
from mailagent.settling import settle
from mailagent.store import audit
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.tools.propose_refund import propose_refund
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import OLGA, big_order
from tests.harness import Harness, pass_time
from tests.told import record_told
from tests.tool_use import use
from tests.web.console.drafts import SPENT
from tests.workflows.camera import LENS, STRAPS, camera_order
from tests.workflows.moves import reply_move
from tests.workflows.paying import pay, tell, tell_at_once, two_payments
from tests.workflows.proposals import write

RULES = Policy(store_credit=StoreCredit(10))
TO_CARD = "A strap broke. Please refund it to my card."
NOT_OFFERED = "store_credit_not_offered"


def with_rules(policy: Policy = RULES) -> None:
    services.bind(replace(services.current(), policy=policy))


def ask(
    batch: Batch, item: str, quantity: int | None = 1, pay_as: str = "store_credit"
) -> dict[str, Any]:
    order_id = {"D1": "W2001", "K1": "W1001"}.get(item, "W1010")
    items = [{"item_id": item, "quantity": quantity}]
    wish = {"order_id": order_id, "items": items, "reason": "damaged", "pay_as": pay_as}
    return use(propose_refund, batch, wish)


def mail(shop: Harness, text: str, hours: int = 0) -> Batch:
    pass_time(shop, hours=hours)
    number = len(shop.rows("SELECT 1 FROM inbound_mails"))
    return write(shop, subject=f"Mail {number}", text=text)


def tell_choice(shop: Harness, batch: Batch, order_id: str, late: bool = False) -> str:
    """Answer with the fact that offers store credit, and send the answer; return its text."""
    written = write_reply(batch, reply_move(batch, Fact(f"store_credit/{order_id}")), SPENT)
    (outbound_id,) = written["outbound_ids"]
    if late:
        pass_time(shop, hours=1)
        with_rules(Policy(store_credit=StoreCredit(20)))
    assert send_mail(outbound_id) == "sent"
    (row,) = shop.rows("SELECT text FROM outbound_mails WHERE outbound_id = :id", id=outbound_id)
    return " ".join(row.text.split())


def offers_on_record(shop: Harness, order_id: str) -> Sequence[dict[str, Any]]:
    """Return what the audit log says of each offer of store credit for an order, oldest first."""
    with shop.live.database.snapshot() as connection:
        return audit.list_details(connection, order_id, audit.CREDIT_OFFERED)


OF_ANOTHER = [
    {},  # an entry of the audit log that does not say what was offered
    {"percent": 10, "refund_id": None, "units": {}},  # of the order in general
    {"percent": 10, "refund_id": None, "units": {LENS: 1}},
    {"percent": 10, "refund_id": "refund_of_the_lens", "units": {}},
]


@pytest.mark.parametrize("offer", OF_ANOTHER, ids=["unknown", "order", "units", "refund"])
def test_an_offer_for_something_else_is_no_choice(shop: Harness, offer: dict[str, Any]) -> None:
    shop.stock(camera_order())
    with_rules()
    with shop.live.database.transaction() as connection:
        record_told(connection, audit.CREDIT_OFFERED, "W1010", **offer)
    assert ask(mail(shop, TO_CARD), STRAPS)["error"] == NOT_OFFERED
    assert not shop.refunds()


def test_a_general_answer_about_store_credit_is_no_offer(shop: Harness) -> None:
    shop.stock(camera_order())
    with_rules()
    told = tell_choice(shop, mail(shop, "Do you give store credit for W1010?"), "W1010")
    assert "10% more. If you would like it, please tell us for which items." in told
    assert not offers_on_record(shop, "W1010")
    assert ask(mail(shop, TO_CARD), STRAPS)["error"] == NOT_OFFERED
    asked = mail(shop, "Yes please: store credit for one strap.", hours=1)
    assert ask(asked, STRAPS)["error"] == NOT_OFFERED
    assert "10% more. To choose it, just answer this mail." in tell_choice(shop, asked, "W1010")
    assert ask(mail(shop, "Yes.", hours=1), STRAPS)["outcome"] == "approved"
    assert [each.credit_bonus for each in shop.refunds()] == [10]


def test_a_late_mail_that_offers_nothing_any_more_is_no_offer(shop: Harness) -> None:
    shop.stock(big_order())
    with_rules()
    asked = mail(shop, "My desk broke.")
    ask(asked, "D1", None, "no_choice")
    written = write_reply(asked, reply_move(asked, Fact("store_credit/W2001")), SPENT)
    use(withdraw_refund, mail(shop, "Never mind.", hours=1), {"order_id": "W2001"})
    assert send_mail(written["outbound_ids"][0]) == "sent"
    told = offers_on_record(shop, "W2001")
    assert [bool(each["refund_id"]) for each in told] == [True, False]


@pytest.mark.both_databases
def test_an_offer_for_units_is_chosen_once_and_keeps_its_bonus(shop: Harness) -> None:
    shop.stock(camera_order())
    with_rules()
    asked = mail(shop, "Could I have store credit for two straps of W1010?")
    assert ask(asked, STRAPS, 2)["error"] == NOT_OFFERED
    assert "which is worth 10% more" in tell_choice(shop, asked, "W1010")
    with_rules(Policy(store_credit=StoreCredit(0)))
    assert ask(mail(shop, "Yes, for three."), STRAPS, 3)["error"] == NOT_OFFERED
    yes = mail(shop, "Yes, store credit for one of them, please.")
    for _ in range(2):  # replayed
        assert ask(yes, STRAPS)["outcome"] == "approved"
    assert [each.credit_bonus for each in shop.refunds()] == [10]
    again = ask(mail(shop, TO_CARD), STRAPS)  # a manager decides: units of the same item
    assert (again["outcome"], shop.refunds()[1].credit_bonus) == ("needs_manager", None)


@pytest.mark.both_databases
def test_the_amount_told_is_kept_when_the_bonus_changes(shop: Harness) -> None:
    shop.stock(big_order())
    with_rules()
    asked = mail(shop, "My desk broke.")
    ask(asked, "D1", None, "no_choice")
    assert "store credit of $1,648.90" in tell_choice(shop, asked, "W2001")
    with_rules(Policy(store_credit=StoreCredit(0)))
    ask(mail(shop, "Yes, the $1,648.90 as store credit, please."), "D1", None)
    (refund,) = shop.refunds()
    assert str(credit_of(refund)) == "1648.90 USD"


@pytest.mark.both_databases
def test_credit_is_offered_for_the_refund_that_it_was_asked_for(shop: Harness) -> None:
    shop.stock(camera_order())
    with_rules(replace(RULES, limits={"USD": 1}))
    for item in (LENS, STRAPS):
        assert ask(mail(shop, "It broke."), item, 1, "no_choice")["outcome"] == "needs_manager"
    asked = mail(shop, "Please give me store credit for the lens.")
    for _ in range(2):  # replayed
        assert ask(asked, LENS)["facts"] == ["refund/W1010", "store_credit/W1010"]
    assert "Instead of $480.00 you can choose store credit" in tell_choice(shop, asked, "W1010")
    ask(mail(shop, "Yes, please.", hours=1), LENS)
    assert [each.credit_bonus for each in shop.refunds()] == [10, None]
    # The other one is offered again, as the newest that waits.
    assert "Instead of $110.00" in tell_choice(shop, mail(shop, "And my other one?"), "W1010")


def test_what_a_late_mail_told_is_what_counts(shop: Harness) -> None:
    shop.stock(big_order())
    with_rules()
    asked = mail(shop, "My desk broke.")
    ask(asked, "D1", None, "no_choice")
    assert "store credit of $1,798.80" in tell_choice(shop, asked, "W2001", late=True)
    ask(mail(shop, "Yes, store credit, please.", hours=2), "D1", None)
    (refund,) = shop.refunds()
    assert str(credit_of(refund)) == "1798.80 USD"


def credited(shop: Harness) -> tuple[str, str]:
    """Let Ada choose store credit for a kettle of two payments; return the keys of both."""
    shop.stock(two_payments())
    with_rules()
    with shop.live.database.transaction() as connection:
        units = {"K1": 1}
        record_told(connection, audit.CREDIT_OFFERED, "W1001", percent=10, units=units)
    assert ask(mail(shop, "Store credit, please."), "K1")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    pay(refund_id)
    return refund_id, f"{refund_id}.2"


def report(shop: Harness, *outcomes: Outcome) -> str:
    with shop.live.database.transaction() as connection:
        for outcome in outcomes:
            settle(connection, outcome, OLGA)
    return str(pay(outcomes[0].idempotency_key.partition(".")[0])["status"])


def test_credit_given_in_part_so_far_is_told_with_its_bonus(shop: Harness) -> None:
    first, _ = credited(shop)
    assert report(shop, Outcome(first, SettlementState.SETTLED, "CODE-17")) == "approved"
    with shop.live.database.snapshot() as connection:
        fact = batch_reader(connection, mail(shop, "And?")).find("refund/W1001")
    assert fact is not None
    told = " ".join(sentence(fact).split())
    assert "You have chosen store credit of $54.98 for it. You already have $22.00 of it." in told


def test_credit_that_came_back_is_told_as_credit(shop: Harness) -> None:
    first, second = credited(shop)
    both = (
        Outcome(first, SettlementState.SETTLED, "CODE-17"),
        Outcome(second, SettlementState.SETTLED, "CODE-18"),
    )
    assert report(shop, *both) == "paid"
    tell_at_once(shop, first)
    pass_time(shop, hours=1)
    back = Outcome(second, SettlementState.FAILED, reason="code void", came_back=True)
    assert report(shop, back) == RefundStatus.FAILED.value
    tell(first)
    query = "SELECT text FROM outbound_mails WHERE dedup_key LIKE 'returned:%'"
    told = " ".join(next(iter(shop.rows(query))).text.split())
    assert "$32.98 of the store credit of $54.98 did not reach you. It came back to us." in told
    assert "Its code was CODE-18." in told
    assert "Refunded: store credit of $22.00" in told
    assert "Came back to us: store credit of $32.98" in told
    assert not any(each in told for each in ("bank", "$20.00", "$29.99", "money"))
