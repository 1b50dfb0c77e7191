"""Items that a manager unticks or counts down, and a lower amount for the same items: two things."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.money import Money
from mailagent.domain.refunds.policy import KeepOffers, Policy
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundReason, RefundStatus
from mailagent.store import schema
from mailagent.store.refunds import approvals, offers, refunds
from tests.cast import ADA, MAX, MONA, TESS, order
from tests.harness import Harness
from tests.web.questions import Question, ask, paid

DESK, LAMP = 1_000_00, 60_00


@pytest.fixture
def question(shop: Harness) -> Question:
    """A refund of a desk and of three lamps for 60.00 each, with 20.00 for shipping, that waits for Mona."""
    items = [
        {"item_id": "D", "name": "Desk", "quantity": 1, "unit_price": "1000.00"},
        {"item_id": "L", "name": "Lamp", "quantity": 3, "unit_price": "60.00"},
    ]
    paid = [{"payment_id": "pay_1", "method": "card", "amount": "1200.00"}]
    shop.stock(order("W3001", items=items, payments=paid, shipping="20.00"))
    shop.write("All of order W3001 came broken.")
    (mail,) = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    now, amount = shop.live.now(), Money(1_200_00, "USD")
    refund = Refund(
        "refund_1", "W3001", mail.conversation_id, mail.mail_id, amount,
        (RefundLine(1, 1, Money(DESK, "USD")), RefundLine(2, 3, Money(3 * LAMP, "USD"))),
        ("D", "L"), RefundReason.DAMAGED, RefundStatus.AWAITING_APPROVAL, now,
        ("above_limit",), shipping_minor=20_00,
    )  # fmt: skip
    with shop.live.database.transaction() as connection:
        refunds.record(connection, refund, "key", {})
        expires_at = now + shop.live.waits.approval_expiry
        approval = approvals.request(connection, "refund_1", now, expires_at)
        shop.live.workflow_client.queue.enqueue_refund(connection, "refund_1", None)
    return Question(shop, "refund_1", approval.approval_id)


def held(question: Question) -> int:
    return int(question.shop.rows("SELECT held_minor FROM orders")[0].held_minor)


@pytest.mark.parametrize(
    ("form", "units", "minor"),
    [
        ({"quantity_1": "1", "quantity_2": "3"}, {1: 1, 2: 3}, 1_200_00),
        ({"quantity_1": "0"}, {2: 3}, 3 * LAMP),
        ({"quantity_2": "1"}, {1: 1, 2: 1}, DESK + LAMP),
        ({"quantity_1": "0", "quantity_2": "2", "amount": "$100"}, {2: 2}, 100_00),
        ({"quantity_2": " 0 "}, {1: 1}, DESK),
    ],
)
def test_the_amount_follows_the_items(
    question: Question, form: dict[str, str], units: dict[int, int], minor: int
) -> None:
    page = question.decide(form=form)
    refund = question.refund()
    assert {line.line_no: line.quantity for line in refund.lines} == units
    assert (refund.amount.minor, held(question)) == (minor, minor)
    assert refund.asked.minor == 1_200_00
    assert refund.status is RefundStatus.APPROVED
    assert "approved</h1>" in page.text


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"quantity_1": "0", "quantity_2": "0"}, "Nothing is left of the items"),
        ({"quantity_2": "4"}, "not a quantity from 0 to 3"),
        ({"quantity_2": "-1"}, "not a quantity"),
        ({"quantity_2": "two"}, "not a quantity"),
        ({"quantity_2": ""}, "not a quantity"),
        ({"quantity_1": "0", "amount": "180.01"}, "at most $180.00, which the chosen items"),
    ],
)
def test_items_that_cannot_be_taken_are_said_and_kept(
    question: Question, form: dict[str, str], complaint: str
) -> None:
    page = question.decide(form=form)
    assert page.status_code == 422
    assert complaint in page.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT 1 FROM decisions") == []


def test_a_button_works_out_the_sum_without_a_script(question: Question) -> None:
    page = question.decide("count", form={"quantity_1": "0", "quantity_2": "2", "note": "Two"})
    assert page.status_code == 200
    assert ">$120.00</output>" in page.text
    assert 'value="2" data-minor' in page.text
    assert ">\nTwo</textarea>" in page.text
    assert question.shop.rows("SELECT 1 FROM decisions") == []
    assert question.refund().amount.minor == 1_200_00


def test_what_is_left_after_a_lower_amount_is_one_number(question: Question) -> None:
    question.decide(form={"amount": "600"})
    tess, (mail,) = question.shop.log_in(TESS), question.shop.rows("SELECT * FROM inbound_mails")
    path = f"/ops/conversations/{mail.conversation_id}"
    assert "1 of 1 left, $508.47 together" in tess.get(f"{path}/refund/W3001").text
    page = tess.get(path).text
    assert "Desk" in page
    assert "0 of 1 left" not in page


def test_rejecting_reads_no_items(question: Question) -> None:
    question.decide("reject", form={"quantity_1": "0", "quantity_2": "0"})
    refund = question.refund()
    assert (refund.status, len(refund.lines)) == (RefundStatus.REJECTED, 2)


def test_an_offer_is_for_the_chosen_items(question: Question) -> None:
    rules = KeepOffers({RefundReason.DAMAGED: 30})
    services.bind(replace(question.shop.live, policy=Policy({"USD": 0}, keep_offers=rules)))
    form = {"quantity_1": "0", "quantity_2": "2", "offer_percent": "50"}
    page = question.decide("offer", form=form)
    assert "50 % of the price, which is $60.00, if the customer keeps" in page.text
    with question.shop.live.database.snapshot() as connection:
        (made,) = offers.list_of_order(connection, "W3001")
    assert (made.items, made.amount) == ((("L", 2),), Money(LAMP, "USD"))
    assert len(question.refund().lines) == 2


def test_the_receipt_names_what_it_is_for(question: Question) -> None:
    question.decide(form={"quantity_1": "0", "quantity_2": "2", "amount": "100"})
    with question.shop.live.database.transaction() as connection:
        mailers.write_refund_outcome(connection, paid(question.refund()), "receipt")
    (told,) = question.shop.rows("SELECT text FROM outbound_mails WHERE to_address = :to", to=ADA)
    assert "- 2 × Lamp: $120.00" in told.text
    assert "All of this comes to $120.00; $100.00 of it was approved." in told.text
    assert "Shipping" not in told.text
    receipt, _, record = told.text.partition("On record")
    assert "Desk" not in receipt
    assert "Asked for: $1,200.00 (1 × Desk, 3 × Lamp)" in record


def test_nothing_of_it_has_an_effect_while_it_can_be_taken_back(question: Question) -> None:
    waits = replace(question.shop.live.waits, approval_undo_seconds=300)
    services.bind(replace(question.shop.live, waits=waits))
    before = question.refund()
    page = question.decide(form={"quantity_1": "0"})
    assert "Refund of $180.00 approved" in page.text
    after = question.refund()
    assert (after.status, after.lines, after.amount) == (before.status, before.lines, before.amount)
    question.decide("undo")
    question.decide(form={"quantity_2": "2"})
    (made,) = question.shop.rows("SELECT amount_minor, quantities FROM decisions")
    assert made.amount_minor == DESK + 2 * LAMP


def test_a_second_manager_takes_more_off_and_puts_nothing_back(question: Question) -> None:
    with question.shop.live.database.transaction() as connection:
        connection.execute(schema.refunds.update().values(four_eyes=True))
    question.decide(form={"quantity_1": "0"})
    assert "Second approval: refund $180.00?" in ask(question, MAX).subject
    refused = question.decide(manager=MAX, form={"quantity_2": "4", "first_decision": "made"})
    assert refused.status_code == 422
    assert "quantity_1" not in refused.text
    question.decide(manager=MAX, form={"quantity_1": "1", "quantity_2": "1"})
    refund = question.refund()
    assert [(line.line_no, line.quantity) for line in refund.lines] == [(2, 1)]
    assert (refund.amount.minor, refund.decided_by) == (LAMP, MAX)


def test_the_database_takes_no_more_units_than_were_asked_for(question: Question) -> None:
    change = schema.refund_lines.update().values(approved_quantity=4)
    with pytest.raises(sa.exc.IntegrityError), question.shop.live.database.transaction() as open_:
        open_.execute(change)


def test_a_reply_approves_all_items(question: Question) -> None:
    request = ask(question)
    question.shop.write(
        "approve", to=request.reply_to, subject=f"Re: {request.subject}", from_address=MONA
    )
    refund = question.refund()
    assert (refund.status, refund.amount.minor) == (RefundStatus.APPROVED, 1_200_00)
