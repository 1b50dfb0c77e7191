"""Paying: refused in part, cancelled on the way, decided at any moment. Nothing is paid twice, and what
was paid is never forgotten."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import OutboundStatus
from mailagent.domain.money import Money
from mailagent.domain.operations.retry import backoff_seconds
from mailagent.domain.refunds.order import Payment
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    NotDone,
    OutcomeUnknown,
    Pending,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.text import NeedsOperatorError
from mailagent.mailers.compose import write_record
from mailagent.mailers.fact import sentence
from mailagent.payment_events import follow_refund
from mailagent.store.mail import conversations, outbound
from mailagent.store.refunds import approvals, refund_payments, refunds, stops
from mailagent.store.refunds.ledger import LedgerGateway
from mailagent.workflows.steps.conversation.batch import batch_reader
from mailagent.workflows.steps.delivery.undeliverable import act_on_lost
from mailagent.workflows.steps.recording import watch
from tests.cast import ADA, DESK_WISH, GRACE, MALLORY, MONA, TESS, big_order, order
from tests.harness import Harness, beside, running, wait_until
from tests.round_trips.approvals import decide
from tests.round_trips.replays import wait_for_quiet
from tests.workflows import proposals
from tests.workflows.cancelling import keep_version
from tests.workflows.paying import (
    CARD,
    GIFT,
    MoodyGateway,
    approved,
    held,
    ledger,
    look,
    moody,
    pay,
    propose,
    tell,
    tell_at_once,
    two_payments,
)


def cancel(shop: Harness) -> None:
    shop.stock(two_payments(status="cancelled"))


def approve(shop: Harness, refund: Refund, **form: str) -> None:
    """Have the manager approve a refund by the page."""
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, refund.refund_id)
    assert approval is not None
    decide(shop, shop.live.links.sign_approval(approval.approval_id, MONA), "approve", **form)


REFUSED = Refused("expired card")


def failed_by(shop: Harness) -> tuple[str, str | None]:
    """Return who ended the one refund that failed: in the audit log, and in its row."""
    (act,) = shop.rows("SELECT actor FROM audit WHERE action = 'refund failed'")
    return act.actor, shop.refunds()[0].gateway


# --- one payment, two orders ---------------------------------------------------------------------


def of_one_payment(shop: Harness) -> list[str]:
    """Have two orders name the same payment, and a manager approve a refund of each."""
    paid = {"payment_id": "pay_same", "method": "card", "amount": "49.99"}
    shop.stock(order("W1", payments=[paid]), order("W2", payments=[paid]))
    for order_id in ("W1", "W2"):
        assert propose(shop, subject=order_id, order_id=order_id)["outcome"] == "needs_manager"
    for refund in shop.refunds():
        with shop.live.database.transaction() as connection:
            locked = refunds.lock(connection, refund.refund_id)
            refunds.move(connection, locked, RefundStatus.APPROVED, decided_by=MONA)
    return [refund.refund_id for refund in shop.refunds()]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_payment_that_two_orders_name_is_given_back_once(shop: Harness, at_once: bool) -> None:
    asked = of_one_payment(shop)
    with ThreadPoolExecutor(2 if at_once else 1) as pool:
        states = [state["status"] for state in pool.map(pay, asked)]
    assert sorted(states) == ["failed", "paid"]
    assert ledger(shop) == {"pay_same": 49_99}
    assert "something was refunded elsewhere" in str([each.failure for each in shop.refunds()])


# --- what came back is told as it was -------------------------------------------------------------


def come_back(shop: Harness, payment_id: str) -> Any:
    """Have the gateway say that what it gave back to a payment has come back; return the intent."""
    (row,) = shop.rows("SELECT * FROM refund_payments WHERE payment_id = :id", id=payment_id)
    amount = Money(row.amount_minor, "USD")
    told = GatewayRefund(
        row.reference, "moody", (payment_id,), amount, RefundState.FAILED, row.idempotency_key
    )
    with shop.live.database.transaction() as connection:
        follow_refund(connection, told, f"evt_{payment_id}")
    return row


def corrections(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :to", to=ADA)
    return [row.text for row in rows if "We have to correct that" in row.text]


def test_a_correction_names_only_what_came_back(shop: Harness) -> None:
    refund = approved(shop)
    pay(refund.refund_id)
    tell_at_once(shop, refund.refund_id)
    card = come_back(shop, CARD)
    tell(refund.refund_id)
    (told,) = corrections(shop)
    (gift,) = shop.rows("SELECT * FROM refund_payments WHERE payment_id = :id", id=GIFT)
    assert "$29.99 of the refund of $49.99 did not reach you" in told
    assert (card.reference in told, gift.reference in told) == (True, False)


def test_a_correction_leaves_out_what_was_never_told_as_refunded(shop: Harness) -> None:
    refund = approved(shop)
    pay(refund.refund_id)
    gift = come_back(shop, GIFT)
    tell(refund.refund_id)
    assert corrections(shop) == []
    card = come_back(shop, CARD)
    for _ in range(2):  # the step may be done again
        tell(refund.refund_id)
    (told,) = corrections(shop)
    assert "$29.99 of the refund of $49.99 did not reach you" in told
    assert (card.reference in told, gift.reference in told) == (True, False)


# --- refused in part ----------------------------------------------------------------------------


def test_what_one_payment_gave_back_stays_held_when_the_other_is_refused(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED]})
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (20_00, {GIFT: 20_00})


def test_what_failed_in_part_is_not_paid_by_a_second_proposal(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED]})
    pay(refund.refund_id)
    told = propose(shop, "K1", "Again")
    assert (told["outcome"], told["status"]) == ("already_requested", "failed")
    assert propose(shop, "L1", "The lamp")["outcome"] == "approved"
    lamp = shop.refunds()[-1]
    assert pay(lamp.refund_id)["status"] == "paid"
    assert (held(shop), ledger(shop)) == (50_00, {GIFT: 20_00, CARD: 30_00})


def test_what_failed_as_a_whole_may_be_asked_for_again(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED], GIFT: [Refused("no such card")]})
    assert pay(refund.refund_id)["status"] == "failed"
    assert held(shop) == 0
    assert propose(shop, "K1", "Again")["outcome"] == "approved"


def test_the_team_reads_what_was_paid_and_what_was_not_and_the_customer_what_came(
    shop: Harness,
) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED]})
    pay(refund.refund_id)
    tell(refund.refund_id)
    (case,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'hand_over'")
    assert "20.00 USD was refunded to payment pay_gift" in case.text
    assert "29.99 USD was NOT refunded to payment pay_card (expired card)" in case.text
    (letter,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :ada", ada=ADA)
    assert "$20.00 of it was paid (gift card); the rest was not." in letter.text


def test_what_is_paid_of_a_refund_under_way_is_told_as_refunded(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [Pending("re_1", 3600)]})
    assert pay(refund.refund_id)["status"] == "approved"
    assert held(shop) == 49_99
    batch = proposals.write(shop, subject="My money", text="Where is my money for W1001?")
    with shop.live.database.transaction() as connection:
        reader = batch_reader(connection, batch)
        fact, record = reader.find("refund/W1001"), write_record(reader.record(["W1001"]), "en")
    assert fact is not None
    assert "$20.00 of it is paid already." in sentence(fact)
    assert "State: approved, paid in part so far\nRefunded: $20.00\n" in str(record)


def test_a_refund_that_failed_as_a_whole_tells_the_customer_of_no_money(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED], GIFT: [REFUSED]})
    pay(refund.refund_id)
    tell(refund.refund_id)
    (letter,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :ada", ada=ADA)
    assert "the payment could not be completed" in letter.text
    assert "was paid" not in letter.text


def test_money_that_turns_up_after_a_refund_failed_is_held_and_told(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED], GIFT: [REFUSED]}, moved=frozenset({GIFT}))
    pay(refund.refund_id)
    tell(refund.refund_id)
    (entry,) = shop.rows("SELECT idempotency_key, reference FROM ledger_entries")
    with shop.live.database.transaction() as connection:  # as another run would that asked as well
        refund_payments.record_payment(
            connection, entry.idempotency_key, "done", reference=entry.reference
        )
    assert held(shop) == 20_00
    tell(refund.refund_id)
    tell(refund.refund_id)
    cases = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'hand_over'")
    assert ["20.00 USD was refunded" in case.text for case in cases] == [False, True]


def test_telling_again_does_not_take_the_conversation_from_the_agent(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [REFUSED]})
    pay(refund.refund_id)
    written = tell(refund.refund_id)
    with shop.live.database.transaction() as connection:
        conversations.give_back(connection, refund.conversation_id)
    assert tell(refund.refund_id) == written
    assert shop.rows("SELECT status FROM conversations")[0].status == "open"
    assert len(shop.mails_to(TESS)) == 0  # nothing was sent here, only written
    assert len(shop.rows("SELECT 1 FROM outbound_mails")) == len(written) == 2


def test_a_rejection_is_told_although_the_line_has_left_the_order_since(shop: Harness) -> None:
    shop.stock(two_payments(status="shipped", delivered_at=None))
    propose(shop, "L1")
    refund = shop.refunds()[0]
    with shop.live.database.transaction() as connection:
        refunds.move(connection, refund, RefundStatus.REJECTED)
    shop.stock(order(status="shipped", delivered_at=None))
    assert len(tell(refund.refund_id)) == 1


# --- refused until somebody puts that right -------------------------------------------------------

NO_BALANCE = NotDone("400 balance_insufficient: ask ada@example.com", 0, for_people=True)


@pytest.mark.parametrize("refused_at", [GIFT, CARD])
def test_what_an_operator_can_put_right_stops_the_run_and_the_next_pays_the_rest_once(
    shop: Harness, refused_at: str
) -> None:
    refund = approved(shop)
    moody(shop, {refused_at: [NO_BALANCE] * 2})
    for _ in range(2):
        with pytest.raises(NeedsOperatorError, match="400 balance_insufficient") as raised:
            pay(refund.refund_id)
        assert refund.refund_id in str(raised.value)
        assert ADA not in str(raised.value)
        assert tell(refund.refund_id) == []
    assert shop.refunds()[0].status is RefundStatus.APPROVED
    assert held(shop) == 49_99
    assert pay(refund.refund_id)["status"] == "paid"
    assert ledger(shop) == {GIFT: 20_00, CARD: 29_99}


def test_an_order_cancelled_while_an_operator_is_waited_for_is_not_paid(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {GIFT: [NO_BALANCE]})
    with pytest.raises(NeedsOperatorError):
        pay(refund.refund_id)
    cancel(shop)
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (0, {})


# --- cancelled on the way -----------------------------------------------------------------------


def test_an_order_cancelled_before_anything_was_asked_is_not_paid(shop: Harness) -> None:
    refund = approved(shop)
    cancel(shop)
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (0, {})
    assert failed_by(shop) == ("clock", None)


def test_what_was_approved_although_the_order_was_cancelled_is_paid(shop: Harness) -> None:
    cancel(shop)
    assert propose(shop)["outcome"] == "needs_manager"
    (refund,) = shop.refunds()
    approve(shop, refund, order_status="cancelled")
    assert pay(refund.refund_id)["status"] == "paid"
    assert (held(shop), ledger(shop)) == (49_99, {GIFT: 20_00, CARD: 29_99})


def move(shop: Harness, email: str = GRACE) -> None:
    """Have the shop put another address on the order."""
    shop.stock(two_payments(customer={"email": email, "name": "Grace Example"}))


def test_an_order_that_is_another_customer_s_by_now_is_not_paid(shop: Harness) -> None:
    refund = approved(shop)
    move(shop)
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (0, {})
    assert "another address" in str(shop.refunds()[0].failure)


@pytest.mark.parametrize("customer", [ADA, GRACE])
def test_only_the_order_s_customer_reads_that_it_was_paid_back(
    shop: Harness, customer: str
) -> None:
    shop.stock(order())
    propose(shop)
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": "49.99"}
    whose = {"email": customer, "name": "Ada Example"}
    shop.stock(order(status="cancelled", customer=whose, payments=[paid]))
    refund_id = shop.refunds()[0].refund_id
    assert pay(refund_id)["status"] == "failed"
    assert shop.refunds()[0].failure == stops.CANCELLED
    tell(refund_id)
    (letter,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :ada", ada=ADA)
    assert ("already been paid back" in letter.text) is (customer == ADA)


@pytest.mark.parametrize(("refunded", "is_all"), [(79_99, True), (79_98, False)])
def test_what_was_paid_back_by_us_and_by_others_is_told_as_paid_back(
    shop: Harness, refunded: int, is_all: bool
) -> None:
    found = two_payments()
    one = Payment("p", "card", Money(79_99, "USD"))
    shop.stock(replace(found, payments=(one,)))
    for item_id in ("L1", "K1"):
        assert propose(shop, item_id, item_id)["outcome"] == "approved"
    lamp, kettle = (each.refund_id for each in shop.refunds())
    pay(lamp)
    keep_version(shop, replace(found, payments=(replace(one, refunded_minor=refunded),)))
    assert pay(kettle)["status"] == "failed"
    tell(kettle)
    (letter,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :ada", ada=ADA)
    assert ("had already been paid back." in letter.text) is is_all


def test_what_was_approved_although_the_order_is_another_customer_s_is_paid(shop: Harness) -> None:
    shop.stock(two_payments(status="cancelled"))
    assert propose(shop)["outcome"] == "needs_manager"
    move(shop)
    (refund,) = shop.refunds()
    approve(shop, refund, order_customer=GRACE)
    assert pay(refund.refund_id)["status"] == "paid"
    assert (held(shop), ledger(shop)) == (49_99, {GIFT: 20_00, CARD: 29_99})


@pytest.mark.parametrize(("email", "status"), [(MALLORY, "failed"), (ADA, "paid")])
def test_what_was_approved_for_one_new_customer_is_not_paid_for_the_next(
    shop: Harness, email: str, status: str
) -> None:
    shop.stock(two_payments(status="cancelled"))
    assert propose(shop)["outcome"] == "needs_manager"
    move(shop)
    (refund,) = shop.refunds()
    approve(shop, refund, order_customer=GRACE)
    move(shop, email)
    assert pay(refund.refund_id)["status"] == status


def test_an_order_cancelled_after_a_manager_approved_is_not_paid(shop: Harness) -> None:
    shop.stock(big_order())
    assert propose(shop, "D1", order_id="W2001")["outcome"] == "needs_manager"
    approve(shop, shop.refunds()[0])
    shop.stock(big_order(status="cancelled"))
    assert pay(shop.refunds()[0].refund_id)["status"] == "failed"
    assert ledger(shop) == {}


def test_what_one_payment_gave_back_is_not_asked_for_again(shop: Harness) -> None:
    refund = approved(shop)
    gateway = moody(shop, {CARD: [NotDone("closed", 0)]})
    assert pay(refund.refund_id)["status"] == "approved"
    assert gateway.asked == [GIFT, CARD]
    assert pay(refund.refund_id)["status"] == "paid"
    assert gateway.asked == [GIFT, CARD, f"look up {CARD}", CARD]


def test_an_order_cancelled_between_two_attempts_is_not_paid(shop: Harness) -> None:
    refund = approved(shop)
    moody(shop, {GIFT: [NotDone("closed", 0)]})
    assert pay(refund.refund_id)["status"] == "approved"
    cancel(shop)
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (0, {})
    assert "the order was cancelled" in str(shop.refunds()[0].failure)
    assert failed_by(shop) == ("clock", None)


def test_what_was_paid_before_the_order_was_cancelled_is_looked_up_and_the_rest_not_paid(
    shop: Harness,
) -> None:
    refund = approved(shop)
    moody(shop, {GIFT: [OutcomeUnknown("time-out")]}, moved=frozenset({GIFT}))
    assert pay(refund.refund_id)["status"] == "approved"
    cancel(shop)
    assert pay(refund.refund_id)["status"] == "failed"
    assert (held(shop), ledger(shop)) == (20_00, {GIFT: 20_00})


def test_an_order_cancelled_while_its_last_answer_was_lost_ends_as_what_became_of_it(
    shop: Harness,
) -> None:
    refund = approved(shop)
    moody(shop, {CARD: [OutcomeUnknown("time-out")]}, moved=frozenset({CARD}))
    assert pay(refund.refund_id)["status"] == "approved"
    cancel(shop)
    assert pay(refund.refund_id)["status"] == "paid"
    assert (held(shop), ledger(shop)) == (49_99, {GIFT: 20_00, CARD: 29_99})


@pytest.mark.parametrize("wanted", [0, 900])
def test_the_pause_that_a_gateway_asks_for_is_the_runs_and_no_wake_up_shortens_it(
    shop: Harness, wanted: float
) -> None:
    refund = approved(shop)
    moody(shop, {GIFT: [NotDone("too many requests", wanted)]})
    state = pay(refund.refund_id)
    assert state["wait_seconds"] == max(wanted, backoff_seconds(1))
    assert not state["wakes"]


def test_two_runs_that_pay_at_once_pay_once_and_agree(shop: Harness) -> None:
    refund = approved(shop)
    gateway = moody(shop, {})

    def another_run() -> None:
        gateway.before = lambda: None
        pay(refund.refund_id)

    gateway.before = another_run
    assert pay(refund.refund_id)["status"] == "paid"
    assert (held(shop), ledger(shop)) == (49_99, {GIFT: 20_00, CARD: 29_99})


@pytest.mark.parametrize("for_people", [False, True])
def test_a_run_that_is_told_nothing_does_not_forget_what_another_was_told(
    shop: Harness, for_people: bool
) -> None:
    refund = approved(shop)
    gateway = moody(shop, {})

    def lose_the_next_answer() -> None:
        gateway.before = lambda: None
        pay(refund.refund_id)
        gateway.says[GIFT] = [OutcomeUnknown("time-out", for_people=for_people)]

    gateway.before = lose_the_next_answer
    # It does not wait, nor call people, for what is settled.
    assert pay(refund.refund_id)["status"] == "paid"
    assert pay(refund.refund_id)["status"] == "paid"
    rows = shop.rows("SELECT state FROM refund_payments")
    assert [row.state for row in rows] == ["done", "done"]


# --- decided at any moment ----------------------------------------------------------------------


@pytest.mark.parametrize("seconds_late", [-1, 0, 1])
def test_a_refund_expires_at_its_date_and_not_before(shop: Harness, seconds_late: int) -> None:
    shop.stock(order(status="shipped", delivered_at=None))
    propose(shop)
    refund = shop.refunds()[0]
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, refund.refund_id)
    assert approval is not None
    then = approval.expires_at + timedelta(seconds=seconds_late)
    services.bind(replace(shop.live, now=lambda: then))
    state = look(refund.refund_id)
    assert state["status"] == ("awaiting_approval" if seconds_late < 0 else "expired")
    assert shop.refunds()[0].status == state["status"]


POINTS = [("claim_refund", point) for point in ("before", "claimed", "after", "recorded")]


class Interruption:
    """Does something once, at one point of one step, and is inert ever after."""

    def __init__(self, step: str, point: str, act: Callable[[], object]) -> None:
        self._where: tuple[str, str] | None = (step, point)
        self._act = act
        watch(self)

    def __call__(self, step: str, point: str) -> None:
        if (step, point) == self._where:
            self._where = None
            self._act()

    @property
    def came(self) -> bool:
        return self._where is None


@pytest.mark.parametrize(("step", "point"), POINTS)
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_counts_at_whatever_moment_it_comes(
    shop: Harness, step: str, point: str, decision: str
) -> None:
    def press() -> None:
        with shop.live.database.snapshot() as connection:
            (approval_id,) = connection.scalars(sa.text("SELECT approval_id FROM approvals"))
        decide(shop, shop.live.links.sign_approval(approval_id, MONA), decision)

    interruption = Interruption(step, point, lambda: beside(press))
    shop.stock(big_order())
    with running(shop):
        shop.write(DESK_WISH)
        status = {"approve": RefundStatus.PAID, "reject": RefundStatus.REJECTED}[decision]
        shop.wait_for_refund(status)
        wait_until(lambda: len(shop.mails_to(ADA)) == 2, 20, "the answer and the outcome")
        wait_for_quiet(shop)
    assert interruption.came
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == (1 if decision == "approve" else 0)
    assert len(shop.mails_to(MONA)) <= 1
    assert len(shop.rows("SELECT 1 FROM decisions")) == 1


# --- one receipt for what one mail led to ---------------------------------------------------------


def two_of_one_mail(shop: Harness) -> list[str]:
    """Have one mail lead to refunds of two orders, which are to be paid."""
    shop.stock(order("W1"), order("W2"))
    batch = proposals.write(shop)
    for order_id in ("W1", "W2"):
        assert proposals.propose(batch, order_id)["outcome"] == "approved"
    return [refund.refund_id for refund in shop.refunds()]


def receipts(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'receipt' ORDER BY outbound_id")


def untold(shop: Harness) -> list[str]:
    since = shop.live.now() - timedelta(days=1)
    with shop.live.database.snapshot() as connection:
        return [row.refund_id for row in refunds.list_untold(connection, since, 10)]


def test_a_paid_refund_waits_for_another_of_its_mail_and_both_get_one_receipt(
    shop: Harness,
) -> None:
    first, second = two_of_one_mail(shop)
    pay(first)
    assert tell(first) == {"wait_seconds": 1.0}
    pay(second)
    assert sorted(untold(shop)) == sorted([first, second])
    (told,) = tell(second)
    assert tell(first) == tell(second) == [told]  # replayed, forked
    (receipt,) = receipts(shop)
    assert receipt.outbound_id == told
    for order_id in ("W1", "W2"):
        assert f"for order {order_id}" in receipt.text
    assert untold(shop) == []
    page = shop.log_in(TESS).get(f"/ops/refunds/{first}").text
    assert "receipt of a refund" in page.lower()


def test_the_notice_of_a_shared_receipt_that_was_lost_names_every_refund(shop: Harness) -> None:
    first, second = two_of_one_mail(shop)
    pay(first)
    pay(second)
    (told,) = tell(second)
    with shop.live.database.transaction() as connection:
        mail = outbound.load(connection, told)
        act_on_lost(connection, mail, OutboundStatus.UNKNOWN, "")
    (notice,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'notice'")
    assert first in notice.text
    assert second in notice.text


def test_a_receipt_waits_no_longer_than_two_minutes(shop: Harness) -> None:
    first, second = two_of_one_mail(shop)
    pay(first)
    later = shop.live.now() + timedelta(seconds=121)
    services.bind(replace(shop.live, now=lambda: later))
    (alone,) = tell(first)
    pay(second)
    (other,) = tell(second)
    assert tell(first) == [alone]
    assert tell(second) == [other]
    assert other != alone
    assert ["W2" in each.text for each in receipts(shop)] == [False, True]
    assert untold(shop) == []


def test_what_fails_is_told_apart_and_the_paid_one_gets_its_receipt(shop: Harness) -> None:
    first, second = two_of_one_mail(shop)
    pay(first)
    shop.stock(order("W2", status="cancelled"))
    assert pay(second)["status"] == "failed"
    tell(second)
    (told,) = tell(first)
    (receipt,) = receipts(shop)
    assert receipt.outbound_id == told
    assert "W2" not in receipt.text


def test_money_that_came_back_of_a_shared_receipt_is_corrected(shop: Harness) -> None:
    first, second = two_of_one_mail(shop)
    pay(first)
    pay(second)
    tell_at_once(shop, first)
    later = shop.live.now() + timedelta(seconds=60)
    with shop.live.database.transaction() as connection:
        for refund_id in (first, second):
            refund_payments.mark_returned(connection, refund_id, later, "lost")
            told = refunds.list_told_before_return(connection, refund_id)
            assert [row.idempotency_key for row in told] == [refund_id]
    assert sorted(untold(shop)) == sorted([first, second])
    with shop.live.database.transaction() as connection:
        for refund in shop.refunds():
            refunds.move(connection, refund, RefundStatus.FAILED)
    for refund_id in (first, second):
        tell(refund_id)
    assert untold(shop) == []
    told = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'refund_outcome'")
    assert sorted(mail.refund_id for mail in told) == sorted([first, second])
    assert all(mail.dedup_key.startswith("returned:") for mail in told)  # none says that it failed


def test_what_waits_for_the_shops_people_holds_up_no_card(shop: Harness) -> None:
    refund = approved(shop)
    ledger_of_people = LedgerGateway(shop.live.database, shop.live.now)

    class CardFirst(MoodyGateway):
        def is_remote(self, request: RefundRequest) -> bool:
            return bool(request.payment_id == CARD)

    gateway = CardFirst(ledger_of_people, {CARD: [Refunded("re_1")]})
    services.bind(replace(shop.live, gateway=gateway))
    state = pay(refund.refund_id)
    assert (state["status"], state["wait_seconds"]) == ("approved", 24 * 3600)
    states = shop.rows("SELECT payment_id, state, reference FROM refund_payments ORDER BY 1")
    assert [(row.payment_id, row.state) for row in states] == [(CARD, "done"), (GIFT, "asked")]
    assert gateway.asked == [CARD, GIFT]
    assert tell(refund.refund_id) == []
