"""Mail of ours of which nobody knows whether it went out: SendGrid's records are asked, and a receipt is sent
once more where nothing can tell. No mail is sent a third time, whatever dies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.store.database import Database
from mailagent.workflows.steps.delivery import send
from tests.cast import ADA, GRACE, MONA, TESS
from tests.harness import Harness
from tests.programs.stampede.story import Clock
from tests.round_trips.provider_faults import lost_after, lost_before
from tests.workflows.paying import approved, pay, tell
from tests.workflows.trouble import watched

look: Callable[[str], Any] = inspect.unwrap(send.look_at_delivery)

SILENCE = 2  # MAIL_OUTCOME_SECONDS of the harness
LOST = [lost_before, lost_after]


@pytest.fixture
def clock(shop: Harness) -> Clock:
    clock = Clock()
    services.bind(replace(shop.live, now=clock.now))
    return clock


@pytest.fixture
def receipt(shop: Harness, clock: Clock) -> str:
    """The receipt of a refund that was paid, to be sent."""
    refund = approved(shop)
    assert pay(refund.refund_id)["status"] == "paid"
    (outbound_id,) = tell(refund.refund_id)
    return str(outbound_id)


def row_of(shop: Harness, outbound_id: str) -> Any:
    (row,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=outbound_id)
    return row


def notice_to(address: str) -> str:
    with services.current().database.transaction() as connection:
        notice = mailers.Notice("test", "Something needs you", ["Please look."])
        (outbound_id,) = mailers.write_notice(connection, notice, [address])
    return outbound_id


def see_out(outbound_id: str, clock: Clock) -> list[str]:
    """Do what the run of a mail does, for as long as it takes; return what it did."""
    done: list[str] = []
    while len(done) < 20:
        outlook = look(outbound_id)
        done.append(outlook["kind"])
        if outlook["kind"] == "send":
            send.send_mail(outbound_id)
        elif outlook["kind"] == "wait":
            clock.put_forward(outlook["wait_seconds"])
        else:
            return done
    raise AssertionError(f"no end to {done}")


@pytest.mark.parametrize("lost", LOST)
def test_a_receipt_is_sent_once_more_in_a_shop_where_nothing_can_tell(
    shop: Harness, clock: Clock, receipt: str, lost: Any
) -> None:
    shop.faults.sendgrid.append(lost)
    assert send.send_mail(receipt) == "sending"
    see_out(receipt, clock)
    row = row_of(shop, receipt)
    assert (row.status, row.attempts) == ("sent", 2)
    assert "twice is better than never" in row.sent_again_why
    mails = shop.mails_to(ADA)
    assert len(mails) == (2 if lost is lost_after else 1)
    assert {mail.message_id for mail in mails} == {row.message_id}
    assert shop.mails_to(TESS) == []
    shown = shop.app.test_cli_runner().invoke(args=["conversations", "show", row.conversation_id])
    assert "sent again: nobody knows whether it went out" in shown.output
    page = shop.log_in(TESS).get(f"/ops/conversations/{row.conversation_id}").text
    assert "Sent again, under the same Message-ID" in page


def test_a_receipt_is_sent_a_second_time_and_never_a_third(
    shop: Harness, clock: Clock, receipt: str
) -> None:
    shop.faults.sendgrid += [lost_after, lost_after]
    send.send_mail(receipt)
    see_out(receipt, clock)
    assert row_of(shop, receipt).status == "unknown"
    assert len(shop.mails_to(ADA)) == 2
    (notice,) = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'notice'")
    assert "may or may not have been sent" in notice.subject


class Died(BaseException):
    """The process, at a point of a step."""


def die() -> None:
    raise Died


@pytest.mark.parametrize("point", ["before", "claimed", "submitted", "after"])
@pytest.mark.parametrize("time", [1, 2])
def test_whenever_a_process_dies_a_receipt_goes_out_twice_at_most(
    shop: Harness, clock: Clock, receipt: str, point: str, time: int
) -> None:
    if time == 2:
        shop.faults.sendgrid.append(lost_after)
        send.send_mail(receipt)
        clock.put_forward(SILENCE)
        assert look(receipt)["kind"] == "send"
    with watched(f"send_mail {point}", die), pytest.raises(Died):
        send.send_mail(receipt)
    for _ in range(2):  # whoever finds it next, and again
        send.send_mail(receipt)
        see_out(receipt, clock)
    assert row_of(shop, receipt).status in ("sent", "unknown")
    assert 1 <= len(shop.mails_to(ADA)) <= 2


def test_other_mail_that_nobody_knows_of_is_not_sent_on_a_guess(
    shop: Harness, clock: Clock
) -> None:
    notice = notice_to(GRACE)
    shop.faults.sendgrid.append(lost_after)
    send.send_mail(notice)
    see_out(notice, clock)
    assert row_of(shop, notice).status == "unknown"
    assert row_of(shop, notice).sent_again_why is None
    assert len(shop.mails_to(GRACE)) == 1


# --- an account with Email Activity ---------------------------------------------------------------


@pytest.fixture
def with_activity(shop: Harness, receipt: str) -> Harness:
    """A shop whose account has Email Activity, and that has sent a mail before."""
    shop.faults.has_activity = True
    send.send_mail(notice_to(TESS))
    return shop


def test_a_mail_that_sendgrid_has_is_not_sent_again(
    with_activity: Harness, clock: Clock, receipt: str
) -> None:
    with_activity.faults.sendgrid.append(lost_after)
    send.send_mail(receipt)
    see_out(receipt, clock)
    row = row_of(with_activity, receipt)
    assert (row.status, row.attempts, row.sent_again_why) == ("sent", 1, None)
    assert len(with_activity.mails_to(ADA)) == 1


def test_a_mail_that_sendgrid_does_not_have_is_sent(with_activity: Harness, clock: Clock) -> None:
    notice = notice_to(GRACE)
    with_activity.faults.sendgrid.append(lost_before)
    send.send_mail(notice)
    clock.put_forward(1)
    send.send_mail(notice_to(MONA))
    see_out(notice, clock)
    row = row_of(with_activity, notice)
    assert (row.status, row.attempts) == ("sent", 2)
    assert "a mail submitted later, and no trace of this one" in row.sent_again_why
    assert len(with_activity.mails_to(GRACE)) == 1


@pytest.mark.parametrize("later", [0, 1])
def test_records_that_are_late_are_not_believed(
    with_activity: Harness, clock: Clock, later: int
) -> None:
    with_activity.faults.recorded = 1  # the mail of before
    notice = notice_to(GRACE)
    with_activity.faults.sendgrid.append(lost_after)
    send.send_mail(notice)
    clock.put_forward(1)
    for _ in range(later):
        send.send_mail(notice_to(MONA))
    see_out(notice, clock)
    assert row_of(with_activity, notice).status == "unknown"
    assert len(with_activity.mails_to(GRACE)) == 1


def test_a_receipt_is_sent_once_more_where_late_records_have_no_later_mail_either(
    with_activity: Harness, clock: Clock, receipt: str
) -> None:
    with_activity.faults.sendgrid.append(lost_before)
    send.send_mail(receipt)
    see_out(receipt, clock)
    row = row_of(with_activity, receipt)
    assert (row.status, row.attempts) == ("sent", 2)
    assert "twice is better than never" in row.sent_again_why


def test_records_that_have_none_of_our_mail_prove_nothing(shop: Harness, clock: Clock) -> None:
    shop.faults.has_activity = True
    notice = notice_to(GRACE)
    shop.faults.sendgrid.append(lost_before)
    send.send_mail(notice)
    see_out(notice, clock)
    assert row_of(shop, notice).status == "unknown"


@pytest.mark.parametrize(("sent", "reads"), [(True, False), (False, True)])
def test_only_a_mail_nobody_knows_of_has_the_events_of_other_mail_read(
    shop: Harness, clock: Clock, receipt: str, sent: bool, reads: bool
) -> None:
    shop.faults.sendgrid += [] if sent else [lost_before]
    send.send_mail(receipt)
    clock.put_forward(SILENCE)
    with statements_of(shop.live.database) as statements:
        look(receipt)
    events = [text for text in statements if "FROM delivery_events" in text]
    assert events
    assert any("outbound_id =" not in text for text in events) is reads


@contextmanager
def statements_of(database: Database) -> Iterator[list[str]]:
    """Collect the statements that the application sends to the database."""
    seen: list[str] = []

    def see(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", see)
