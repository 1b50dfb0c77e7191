"""From a customer's mail to money and back to a mail, with everything real but the providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cast import ADA, DESK_WISH, GRACE, KETTLE_WISH, MONA, TESS, big_order, order
from tests.harness import Harness, code_in, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in


@pytest.mark.both_databases
def test_a_small_refund_is_paid_without_a_person(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.write(KETTLE_WISH)
    refund = busy_shop.wait_for_refund("paid")
    assert (str(refund.amount), refund.decided_by) == ("49.99 USD", "policy")
    mails = busy_shop.wait_for_mails(ADA, 2)  # the receipt may be faster than the answer
    assert {mail.subject for mail in mails} == {"Re: My order"}
    (receipt,) = (mail for mail in mails if str(refund.gateway_reference) in mail.text)
    assert "49.99" in receipt.text
    assert len(busy_shop.rows("SELECT * FROM ledger_entries")) == 1
    (mail,) = busy_shop.rows("SELECT status FROM inbound_mails")
    assert mail.status == "answered"


def receipts(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'receipt' ORDER BY created_at")


BOTH = "The kettle of order W1001 and the one of order W1002 arrived broken, please refund both."


@pytest.mark.both_databases
def test_one_mail_that_leads_to_several_refunds_gets_one_receipt(busy_shop: Harness) -> None:
    busy_shop.stock(order(), order("W1002"))
    busy_shop.write(BOTH)
    wait_until(lambda: paid(busy_shop) == ["W1001", "W1002"], 30, "both refunds to be paid")
    busy_shop.wait_for_mails(ADA, 2)
    wait_until(busy_shop.at_rest, 20, "everything to be sent")
    (receipt,) = receipts(busy_shop)
    for refund in busy_shop.refunds():
        assert str(refund.gateway_reference) in receipt.text
        assert refund.order_id in receipt.text
    assert len(busy_shop.mails_to(ADA)) == 2
    (told,) = (
        each.receipt_id for each in busy_shop.refunds() if each.refund_id != receipt.refund_id
    )
    assert told == receipt.outbound_id


def test_what_a_manager_decides_later_gets_a_receipt_of_its_own(busy_shop: Harness) -> None:
    busy_shop.stock(order(), big_order())
    busy_shop.write(BOTH.replace("W1002", "W2001"))
    (request,) = busy_shop.wait_for_mails(MONA)
    wait_until(lambda: len(receipts(busy_shop)) == 1, 30, "the receipt of the first")
    (first,) = receipts(busy_shop)
    assert "W2001" not in first.text
    decide(busy_shop, link_in(request.text), "approve")
    wait_until(lambda: len(receipts(busy_shop)) == 2, 30, "the receipt of the second")
    assert "W1001" not in receipts(busy_shop)[1].text


def paid(shop: Harness) -> list[str]:
    return sorted(each.order_id for each in shop.refunds() if each.status == "paid")


@pytest.mark.both_databases
def test_a_dear_refund_waits_for_the_manager(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    assert busy_shop.rows("SELECT * FROM ledger_entries") == []
    assert "approved" in decide(busy_shop, link_in(request.text), "approve")
    refund = busy_shop.wait_for_refund("paid")
    assert refund.decided_by == MONA
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2


NOTE = "We saw <your> photo & are sorry. 4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("decision", "amount", "status"),
    [("reject", "", "rejected"), ("approve", "", "paid"), ("approve", "999.00", "paid")],
    ids=["rejected", "approved", "lowered"],
)
def test_the_managers_note_reaches_the_customer_without_card_numbers(
    busy_shop: Harness, decision: str, amount: str, status: str
) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    busy_shop.wait_for_mails(ADA)
    page = decide(
        busy_shop, link_in(request.text), decision, note=NOTE, note_shared="yes", amount=amount
    )
    busy_shop.wait_for_refund(status)
    _, told = busy_shop.wait_for_mails(ADA, 2)
    assert "> We saw <your> photo & are sorry. " in told.text
    assert "We saw &lt;your&gt; photo &amp; are sorry. " in (told.html or "")
    for shown in (page, told.text, told.html or ""):
        assert "4111 1111" not in shown
        assert "1111" in shown


def test_a_rejected_refund_is_told_and_not_paid(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    decide(busy_shop, link_in(request.text), "reject")
    _, told = busy_shop.wait_for_mails(ADA, 2)
    assert "1,499.00" in told.text
    assert busy_shop.wait_for_refund("rejected").paid_at is None
    assert busy_shop.rows("SELECT * FROM ledger_entries") == []


def test_someone_elses_order_is_as_good_as_none(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.write("Please refund order W1001.", from_address=GRACE)
    busy_shop.write("Please refund order W9999.", from_address=GRACE)
    first, second = busy_shop.wait_for_mails(GRACE, 2)
    assert first.text.replace("W1001", "W9999") == second.text.replace("W1001", "W9999")
    assert busy_shop.refunds() == ()


def test_who_is_not_proven_is_asked_to_answer_first(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.write("My kettle W1001 is broken. Refund it please.", aligned=False)
    (asked,) = busy_shop.wait_for_mails(ADA)
    assert asked.reply_to is not None
    assert asked.reply_to.startswith("confirm+")
    assert busy_shop.refunds() == ()
    assert "49.99" not in asked.text
    busy_shop.write(f"Yes, that is me: {code_in(asked)}", aligned=False, to=asked.reply_to)
    assert str(busy_shop.wait_for_refund("paid").amount) == "49.99 USD"


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        "I am away until 1 December. I will read your mail when I am back.",
        "I did not write this! Do nothing.",
    ],
)
def test_an_answer_without_the_code_makes_no_forged_wish_ones_own(
    busy_shop: Harness, answer: str, aligned: bool
) -> None:
    busy_shop.stock(order())
    busy_shop.write("My kettle W1001 is broken. Refund it please.", aligned=False)
    (asked,) = busy_shop.wait_for_mails(ADA)
    quoted = "\n".join(f"> {line}" for line in asked.text.splitlines())
    text = f"{answer}\n\nOn 20 November 2026 the shop wrote:\n{quoted}\n"
    busy_shop.write(text, aligned=aligned, to=asked.reply_to)
    wait_until(busy_shop.at_rest, 20, "the answer to be dealt with")
    assert busy_shop.refunds() == ()
    assert [row.identity for row in busy_shop.rows("SELECT identity FROM inbound_mails")].count(
        "none"
    ) == (1 if aligned else 2)


def test_whoever_asks_for_a_person_gets_one(busy_shop: Harness) -> None:
    busy_shop.write("This is outrageous! I want to talk to a human being, now!")
    (told,) = busy_shop.wait_for_mails(ADA)
    (case,) = busy_shop.wait_for_mails(TESS)
    assert "outrageous" in case.text
    assert told.text
    busy_shop.write("Hello? Anybody?", to=told.reply_to)
    wait_until(lambda: len(busy_shop.mails_to(TESS)) == 2, 20, "the second mail to reach the team")
    assert len(busy_shop.mails_to(ADA)) == 1


@pytest.mark.both_databases
def test_two_mails_before_the_answer_get_one(shop: Harness) -> None:
    shop.stock(order())
    first = shop.write("My kettle W1001 is broken, I want a refund.")
    shop.write("It is the kettle from W1001, I forgot to say.", in_reply_to=first.message_id)
    with running(shop):
        shop.wait_for_refund("paid")
        wait_until(
            lambda: not shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"),
            20,
            "both mails to be answered",
        )
        replies = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'reply'")
    assert len(replies) == 1
    assert len(shop.refunds()) == 1


@pytest.mark.both_databases
def test_a_refund_that_nobody_decides_expires_closed(tmp_path: Path, database_url: str) -> None:
    with open_shop(tmp_path, database_url, {"APPROVAL_EXPIRY_SECONDS": "2"}) as shop, running(shop):
        shop.stock(big_order())
        shop.write(DESK_WISH)
        shop.wait_for_refund("expired")
        assert len(shop.wait_for_mails(ADA, 2)) == 2
        assert shop.rows("SELECT * FROM ledger_entries") == []
        assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
