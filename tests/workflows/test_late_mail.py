"""Mail that is sent late says what the rows say then: once, under the same Message-ID."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.adapters.templates.mail_samples import TO_CUSTOMERS, facts_of
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.demo.scripted_model import Fact, Part, Phrase
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState
from mailagent.domain.refunds.policy import Goodwill, KeepOffers, Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.refunds.settlement import Outcome, SettlementState
from mailagent.mailers.compose import MailContent, pack, render, unpack
from mailagent.mailers.facts import Reader
from mailagent.payment_events import follow_refund
from mailagent.settling import settle
from mailagent.store import schema
from mailagent.store.mail import conversations, outbound
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.people import hand_over
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.tools.offer_goodwill import offer_goodwill
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, DESK_WISH, OLGA, big_order, order
from tests.harness import Harness, open_shop, pass_time
from tests.round_trips.approvals import approval_path, decide
from tests.round_trips.provider_faults import limited, lost_before, no_key
from tests.tool_use import use
from tests.web.console.drafts import SPENT
from tests.workflows import paying
from tests.workflows.camera import answer, later_batch
from tests.workflows.moves import person_move, reply_move
from tests.workflows.proposals import propose, write

KETTLE_PAID = {"payment_id": "pay_W1002", "method": "card", "amount": "49.99"}
WAITS = "waits for a manager's decision"
APPROVED = "Your refund of $1,499.00 for order W2001 is approved."
ANSWER = (Phrase("thanks_message"), Fact("refund/W2001"))


def asked(shop: Harness) -> Batch:
    """Let Ada ask for a refund that a manager has to decide."""
    shop.stock(big_order())
    batch = write(shop, text=DESK_WISH)
    assert propose(batch, "W2001", ("D1", None))["outcome"] == "needs_manager"
    return batch


def reply(batch: Batch, *parts: Part) -> str:
    written = write_reply(batch, reply_move(batch, *parts), SPENT)
    (outbound_id,) = written["outbound_ids"]
    return outbound_id


def sent(shop: Harness) -> SentMail:
    (mail,) = shop.mails_to(ADA)
    return mail


def row(shop: Harness, outbound_id: str) -> Any:
    (found,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=outbound_id)
    return found


@pytest.mark.parametrize("faults", [[], [limited], [no_key], [limited, no_key]])
def test_a_reply_that_is_sent_late_says_what_is_true_then(
    shop: Harness, faults: list[Callable[..., Any]]
) -> None:
    batch = asked(shop)
    outbound_id = reply(batch, *ANSWER)
    before = row(shop, outbound_id)
    assert WAITS in before.text
    shop.faults.sendgrid += faults
    for _ in faults:
        assert send_mail(outbound_id) == "queued"
    decide(shop, approval_path(shop), "approve")
    pass_time(shop, hours=1)
    assert send_mail(outbound_id) == "sent"
    told, after = sent(shop), row(shop, outbound_id)
    for text in (told.text, told.html, after.text):
        assert WAITS not in str(text)
        assert APPROVED in str(text).replace("\n", " ")
    assert "State: approved, not paid yet" in told.text
    assert told.text.startswith("Hello Ada Example,\n\nThank you for your message.\n\n")
    assert told.message_id == before.message_id
    assert (after.text, after.written_from) == (told.text, None)
    assert len(shop.rows("SELECT 1 FROM audit WHERE action = 'mail written again'")) == 1
    assert send_mail(outbound_id) == "sent"
    assert len(shop.mails_to(ADA)) == 1


def test_a_mail_that_may_have_gone_out_is_not_written_again(shop: Harness) -> None:
    """The customer could get two different mails under one Message-ID."""
    outbound_id = reply(asked(shop), *ANSWER)
    shop.faults.sendgrid.append(lost_before)
    assert send_mail(outbound_id) == "sending"
    assert row(shop, outbound_id).written_from is None
    decide(shop, approval_path(shop), "approve")
    pass_time(shop, hours=1)
    with shop.live.database.transaction() as connection:
        outbound.set_status(connection, outbound_id, OutboundStatus.QUEUED, shop.live.now(), "lost")
    assert send_mail(outbound_id) == "sent"
    first, second = shop.faults.asked
    assert first == second
    assert WAITS in sent(shop).text


def test_a_fact_that_is_true_no_more_is_left_out(shop: Harness) -> None:
    shop.stock(big_order())
    outbound_id = reply(write(shop, text="Forget my request."), Fact("nothing_waits/W2001"))
    propose(write(shop, text=DESK_WISH, subject="My desk"), "W2001", ("D1", 1))
    pass_time(shop, hours=1)
    send_mail(outbound_id)
    told = sent(shop).text
    assert "No request" not in told
    assert "Thank you for your message." in told
    assert "State: a manager decides" in told


def test_a_code_that_expires_before_its_mail_is_sent_is_left_out(shop: Harness) -> None:
    shop.stock(big_order())
    services.bind(replace(shop.live, policy=Policy(goodwill=Goodwill(10, valid_days=1))))
    batch = write(shop)
    use(offer_goodwill, batch, {"order_id": "W2001", "percent": 10})
    outbound_id = reply(batch, Phrase("sorry_hear"))
    assert "Your code" in row(shop, outbound_id).text
    pass_time(shop, days=2)
    send_mail(outbound_id)
    assert "Your code" not in sent(shop).text


def hands_over(_shop: Harness, batch: Batch) -> str:
    return hand_over(batch, person_move("CUSTOMER_ASKED"))[0]


def team_writes(shop: Harness, batch: Batch) -> str:
    with shop.live.database.transaction() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        return mailers.write_person_reply(connection, conversation, "Tess", "We look.", "team:1")


@pytest.mark.parametrize("writes", [hands_over, team_writes])
def test_the_record_below_other_mail_is_of_now(
    shop: Harness, writes: Callable[[Harness, Batch], str]
) -> None:
    outbound_id = writes(shop, asked(shop))
    assert "State: a manager decides" in row(shop, outbound_id).text
    decide(shop, approval_path(shop), "approve")
    pass_time(shop, hours=1)
    send_mail(outbound_id)
    assert "State: approved, not paid yet" in sent(shop).text
    assert "State: a manager decides" not in sent(shop).text


def test_a_receipt_keeps_its_event_and_has_the_record_of_now(shop: Harness) -> None:
    shop.stock(paying.two_payments())
    paying.propose(shop)
    (kettle,) = shop.refunds()
    paying.pay(kettle.refund_id)
    (outbound_id,) = paying.tell(kettle.refund_id)
    paying.propose(shop, "L1", subject="The lamp")
    pass_time(shop, hours=1)
    send_mail(outbound_id)
    told = sent(shop).text
    before, record = told.split("On record for order W1001")
    assert "$49.99" in before
    assert "$30.00" not in before
    assert "Asked for: $30.00 (1 × Lamp)" in record


def test_a_mail_that_says_the_same_is_sent_as_it_was_written(shop: Harness) -> None:
    batch = asked(shop)
    outbound_id = reply(batch, *ANSWER)
    before = row(shop, outbound_id)
    pass_time(shop, hours=1)
    send_mail(outbound_id)
    assert (sent(shop).text, sent(shop).html) == (before.text, before.html)
    assert not shop.rows("SELECT 1 FROM audit WHERE action = 'mail written again'")


def test_a_mail_whose_template_has_changed_meanwhile_goes_out_as_it_was_written(
    shop: Harness,
) -> None:
    outbound_id = reply(asked(shop), *ANSWER)
    with shop.live.database.transaction() as connection:
        wanted = sa.func.replace(schema.outbound_mails.c.written_from, '"customer_name"', '"old"')
        connection.execute(schema.outbound_mails.update().values(written_from=wanted))
    decide(shop, approval_path(shop), "approve")
    pass_time(shop, hours=1)
    assert send_mail(outbound_id) == "sent"
    assert WAITS in sent(shop).text


@pytest.mark.parametrize("template", sorted(TO_CUSTOMERS))
def test_every_mail_can_be_written_again_from_what_is_kept(shop: Harness, template: str) -> None:
    shop.write("Hello")
    content = MailContent(Purpose.REPLY, template, facts_of()[template], "key")
    with shop.live.database.snapshot() as connection:
        (found,) = shop.rows("SELECT conversation_id FROM conversations")
        reader = Reader(connection, conversations.load(connection, found.conversation_id), (), True)
        kept = unpack(pack(reader, content))
    again = MailContent(Purpose.REPLY, template, kept["values"], "key")
    assert render(again) == render(content)


def test_goods_are_not_asked_for_once_the_customer_has_withdrawn(shop: Harness) -> None:
    rules = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it to 1 Shop Street.")
    services.bind(replace(shop.live, policy=Policy(return_first=rules)))
    shop.stock(order())
    batch = write(shop, text="I do not want the kettle of W1001.")
    propose(batch, "W1001", reason="changed_mind")
    paying.pay(shop.refunds()[0].refund_id)
    (asks,) = shop.rows("SELECT outbound_id, text FROM outbound_mails WHERE purpose = 'remedy'")
    assert "please send these goods back" in asks.text
    withdrawn = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert withdrawn["outcome"] == "withdrawn"
    pass_time(shop, hours=1)
    assert send_mail(asks.outbound_id) == "sent"
    told = sent(shop).text
    assert "Return for order W1001: your request is withdrawn." in told
    assert "send these goods back" not in told
    assert "1 Shop Street" not in told


@pytest.mark.parametrize(
    ("days", "text"),
    [(0.1, "makes you this offer instead"), (9, "does not stand any more")],
)
def test_an_offer_that_ends_before_its_mail_is_sent_is_not_made(
    shop: Harness, days: float, text: str
) -> None:
    services.bind(replace(shop.live, policy=Policy(keep_offers=KeepOffers({}))))
    asked(shop)
    decide(shop, approval_path(shop), "offer", offer_percent="30", note="A scratch.")
    (outbound_id,) = paying.tell(shop.refunds()[0].refund_id)
    assert "makes you this offer instead" in row(shop, outbound_id).text
    pass_time(shop, days=days)
    send_mail(outbound_id)
    told = sent(shop).text
    assert text in told
    assert ("this offer instead" in told) is ("this offer instead" in text)


@pytest.mark.parametrize("is_paid", [False, True])
def test_a_payment_is_not_promised_once_it_is_made(promising: Harness, is_paid: bool) -> None:
    shop = promising
    shop.stock(order())
    propose(write(shop), "W1001")
    (refund,) = shop.refunds()
    paying.pay(refund.refund_id)
    (promise,) = shop.rows("SELECT outbound_id, text FROM outbound_mails")
    assert "We will pay $49.99 within 3 days, by" in promise.text
    if is_paid:
        with shop.live.database.transaction() as connection:
            settle(connection, Outcome(refund.refund_id, SettlementState.SETTLED), OLGA)
        assert paying.pay(refund.refund_id)["status"] == "paid"
    pass_time(shop, hours=1)
    send_mail(promise.outbound_id)
    told = sent(shop).text
    assert ("We will pay" in told) is not is_paid
    assert ("Your refund of $49.99 for order W1001 was paid on" in told) is is_paid


@pytest.mark.parametrize("is_shared", [False, True], ids=["one refund", "two refunds"])
@pytest.mark.parametrize("hours", [0, 1])
def test_no_refund_is_told_that_came_back_before_its_receipt_is_sent(
    shop: Harness, is_shared: bool, hours: int
) -> None:
    shop.stock(order(), order("W1002", payments=[KETTLE_PAID]))
    batch = write(shop)
    for order_id in ["W1001", "W1002"][: 1 + is_shared]:
        propose(batch, order_id)
        paying.pay(shop.refunds()[-1].refund_id)
    answer(shop, batch)
    (receipt,) = paying.tell(shop.refunds()[0].refund_id)
    assert "We have refunded" in row(shop, receipt).text
    paid = shop.rows("SELECT * FROM refund_payments ORDER BY refund_id")[-1]
    came_back = GatewayRefund(
        paid.reference, "ledger", (paid.payment_id,), Money(paid.amount_minor, "USD"),
        RefundState.FAILED, paid.idempotency_key, shop.refunds()[-1].order_id, "account closed",
    )  # fmt: skip
    with shop.live.database.transaction() as connection:
        follow_refund(connection, came_back, "again")
    paying.tell(shop.refunds()[-1].refund_id)
    pass_time(shop, hours=hours)
    assert send_mail(receipt) == "sent"
    paying.tell(shop.refunds()[-1].refund_id)
    corrections = "SELECT 1 FROM outbound_mails WHERE purpose = 'refund_outcome'"
    assert shop.rows(corrections) == []  # of what nobody was told
    told = " ".join(row(shop, receipt).text.split())
    assert "We have refunded" not in told
    assert f"for order {shop.refunds()[-1].order_id} could not be paid" in told
    assert ("for order W1001 was paid on" in told) is is_shared


@pytest.fixture
def promising(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    values = {"MAILAGENT_SETTLES": "", "SETTLEMENT_DAYS": "3"}
    with open_shop(tmp_path, database_url, values) as harness:
        yield harness
