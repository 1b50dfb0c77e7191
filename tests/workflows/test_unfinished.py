"""Refunds and mail of ours whose run failed or was cancelled: enqueued for again, then given to people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.engine import DELIVERY, REFUND, run_id_of
from mailagent.workflows.steps.maintenance import unfinished
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, TESS, big_order, order
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.provider_faults import limited
from tests.workflows.trouble import (
    backdate_refund,
    dbos_client,
    delete_run,
    failing,
    forget_runs,
    later,
    set_run,
    wait_for_run,
)

OPS = "olga@shop.example"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop with an operator, whose workflows do not run yet."""
    with open_shop(tmp_path, database_url, {"OPS_EMAILS": OPS}) as harness:
        yield harness


def ask_manager(shop: Harness) -> str:
    """Let a dear refund wait for its manager; return the link that she got."""
    shop.stock(big_order())
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    wait_until(lambda: shop.refunds()[0].run_id is not None, 20, "a run to take the refund")
    return link_in(request.text)


def leave_approved(shop: Harness) -> str:
    """Let the run of an approved refund fail before it pays; return the run."""
    shop.stock(order())
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        run_id = wait_for_run(shop, "refund", "ERROR")
        wait_until(shop.at_rest, 30, "the answer to be sent")
    return run_id


def is_paid_once(shop: Harness) -> bool:
    """See that the refund is paid, and told, once."""
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_refund("paid")
        assert len(shop.wait_for_mails(ADA, 2)) == 2
        wait_until(shop.at_rest, 30, "everything to be sent")
    return len(shop.rows("SELECT * FROM ledger_entries")) == 1 and len(shop.mails_to(ADA)) == 2


# --- a decision ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["CANCELLED", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
@pytest.mark.parametrize(("decision", "ends"), [("approve", "paid"), ("reject", "rejected")])
def test_a_decision_wakes_a_refund_whose_run_has_ended(
    shop: Harness, status: str, decision: str, ends: str
) -> None:
    with running(shop):
        link = ask_manager(shop)
        wait_until(shop.at_rest, 30, "the answer to be sent")
    run_id = str(shop.refunds()[0].run_id)
    set_run(shop, run_id, status)
    decide(shop, link, decision)
    assert str(shop.refunds()[0].run_id).startswith(f"{run_id}-decided-")
    with running(shop):
        shop.wait_for_refund(ends)
        assert len(shop.wait_for_mails(ADA, 2)) == 2


def test_a_decision_wakes_a_refund_whose_run_is_lost(shop: Harness) -> None:
    with running(shop):
        link = ask_manager(shop)
        wait_until(shop.at_rest, 30, "the answer to be sent")
    forget_runs(shop)
    decide(shop, link, "approve")
    assert is_paid_once(shop)


def test_a_decision_before_any_run_took_the_refund_makes_no_second_run(shop: Harness) -> None:
    with failing("claim_refund"), running(shop):
        shop.stock(big_order())
        shop.write(DESK_WISH)
        run_id = wait_for_run(shop, "refund", "ERROR")
    set_run(shop, run_id, "ENQUEUED")
    (refund,) = shop.refunds()
    assert refund.run_id is None
    with shop.live.database.transaction() as connection:
        base = run_id_of(REFUND, refund.refund_id)
        woken = shop.live.workflow_client.queue.enqueue_refund(
            connection, refund.refund_id, base, "decided"
        )
    assert woken == run_id


# --- refunds that are approved ------------------------------------------------------------------


def test_a_failed_run_is_enqueued_again_after_a_pause(shop: Harness) -> None:
    leave_approved(shop)
    later(shop, minutes=4)
    assert unfinished.enqueue_refunds() == 0
    later(shop, minutes=6)
    assert unfinished.enqueue_refunds() == 1
    assert unfinished.enqueue_refunds() == 0  # the new run is at it
    assert is_paid_once(shop)


def test_the_pauses_grow_and_then_people_have_the_case(shop: Harness) -> None:
    leave_approved(shop)
    for wake_ups, minutes in enumerate((5, 15, 45, 135, 405)):
        later(shop, minutes=minutes - 1)
        assert unfinished.enqueue_refunds() == 0, wake_ups
        later(shop, minutes=minutes + 1)
        assert unfinished.enqueue_refunds() == 1, wake_ups
        services.bind(shop.live)
        set_run(shop, str(shop.refunds()[0].run_id), "ERROR")
    later(shop, minutes=2)
    assert unfinished.enqueue_refunds() == 1
    assert unfinished.enqueue_refunds() == 0
    assert shop.rows("SELECT status FROM conversations")[0].status == "handed_over"
    services.bind(shop.live)
    with running(shop):
        (case,) = shop.wait_for_mails(TESS)
        (notice,) = shop.wait_for_mails(OPS)
    (refund,) = shop.refunds()
    assert f"Refund {refund.refund_id} of {refund.amount.tell()}" in case.text
    assert f"flask runs replay {shop.refunds()[0].run_id}" in notice.text
    assert shop.refunds()[0].status == "approved"


def test_what_an_operator_cancelled_is_left_alone_for_a_day_and_then_shown(shop: Harness) -> None:
    run_id = leave_approved(shop)
    set_run(shop, run_id, "CANCELLED")
    later(shop, hours=23)
    assert unfinished.enqueue_refunds() == 0
    later(shop, hours=25)
    assert unfinished.enqueue_refunds() == 1
    assert unfinished.enqueue_refunds() == 0
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_mails(TESS)
        shop.wait_for_mails(OPS)
        assert shop.rows("SELECT * FROM ledger_entries") == []
        shop.live.workflow_client.replays.replay_run(run_id)
        shop.wait_for_refund("paid")


def test_a_refund_that_waits_is_left_alone_when_a_fork_of_its_run_was_cancelled(
    shop: Harness,
) -> None:
    goods_first = ReturnFirst(frozenset(RefundReason), "Send it to 1 Shop Street.", days=14)
    shop.live = replace(shop.live, policy=Policy(return_first=goods_first))
    services.bind(shop.live)
    with running(shop), dbos_client(shop) as client:
        shop.stock(order())
        shop.write(KETTLE_WISH)
        run_id = wait_for_run(shop, "refund", "PENDING")
        wait_until(shop.at_rest, 30, "the refund to wait for its goods")
        fork_id = client.fork_workflow(run_id, 1).workflow_id  # our own console refuses it
        wait_until(lambda: shop.refunds()[0].run_id == fork_id, 20, "the fork to claim it")
        client.cancel_workflow(fork_id)
    later(shop, hours=25)
    assert unfinished.enqueue_refunds() == 0
    set_run(shop, run_id, "CANCELLED")
    later(shop, hours=50)
    assert unfinished.enqueue_refunds() == 1


def test_a_request_that_never_reached_its_manager_is_made_again(shop: Harness) -> None:
    shop.stock(big_order())
    with failing("claim_refund"), running(shop):
        shop.write(DESK_WISH)
        wait_for_run(shop, "refund", "ERROR")
    later(shop, minutes=6)
    assert unfinished.enqueue_refunds() == 1
    services.bind(shop.live)
    with running(shop):
        assert len(shop.wait_for_mails(MONA)) == 1


# --- refunds that have ended --------------------------------------------------------------------


@pytest.mark.parametrize(("status", "minutes"), [("ERROR", 6), ("CANCELLED", 2)])
def test_a_customer_is_told_although_the_run_ended_before(
    shop: Harness, status: str, minutes: int
) -> None:
    shop.stock(order())
    with failing("tell_customer"), running(shop):
        shop.write(KETTLE_WISH)
        set_run(shop, wait_for_run(shop, "refund", "ERROR"), status)
        wait_until(shop.at_rest, 30, "the answer to be sent")
    assert len(shop.mails_to(ADA)) == 1
    backdate_refund(shop, 90)  # it waited for goods
    later(shop, minutes=minutes)
    assert unfinished.enqueue_refunds() == 1
    assert is_paid_once(shop)
    assert unfinished.enqueue_refunds() == 0


def is_error(shop: Harness, run_id: str) -> bool:
    run = shop.live.workflow_client.runs.find_run(run_id)
    return run is not None and run.status == "ERROR"


def let_people_have_it(shop: Harness) -> None:
    """Let the sweep have enqueued the refund as often as it does, in vain, and give it to people."""
    services.bind(shop.live)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET wake_ups = 5"))
    later(shop, minutes=2)
    assert [unfinished.enqueue_refunds() for _ in range(2)] == [1, 0]
    services.bind(shop.live)
    with running(shop):
        wait_until(shop.at_rest, 30, "the notices to be sent")


@pytest.mark.parametrize(("step", "ends"), [("pay_refund", "approved"), ("tell_customer", "paid")])
def test_after_a_replay_the_sweep_looks_after_a_refund_that_people_had(
    shop: Harness, step: str, ends: str
) -> None:
    run_id = leave_approved(shop)
    later(shop, minutes=6)
    assert unfinished.enqueue_refunds() == 1
    set_run(shop, str(shop.refunds()[0].run_id), "ERROR")
    for notices in (1, 2):  # it stops twice
        let_people_have_it(shop)
        assert len(shop.mails_to(TESS)) == notices
        assert len([mail for mail in shop.mails_to(OPS) if "its end" in mail.subject]) == notices
        shop.live.workflow_client.replays.replay_run(run_id)
        with failing(step), running(shop):
            wait_until(lambda: is_error(shop, run_id), 30, "the replay to fail")
        assert shop.refunds()[0].status == ends
    later(shop, minutes=6)
    assert [unfinished.enqueue_refunds() for _ in range(2)] == [1, 0]
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_refund("paid")
        wait_until(
            lambda: any("$" in mail.text for mail in shop.mails_to(ADA)[1:]), 20, "a receipt"
        )
        wait_until(shop.at_rest, 30, "everything to be sent")
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
    assert len(shop.rows("SELECT 1 FROM outbound_mails WHERE dedup_key LIKE 'outcome:%'")) == 1


# --- mail of ours -------------------------------------------------------------------------------


def leave_mail(shop: Harness) -> str:
    """Let the delivery run of an answer fail; return the mail."""
    shop.faults.sendgrid.append(limited)
    with failing("look_at_delivery"), running(shop):
        shop.write("Hello")
        wait_for_run(shop, "delivery", "ERROR")
    return str(shop.rows("SELECT outbound_id FROM outbound_mails")[0].outbound_id)


def test_mail_whose_delivery_failed_is_enqueued_after_a_pause(shop: Harness) -> None:
    leave_mail(shop)
    later(shop, minutes=4)
    assert unfinished.enqueue_deliveries() == 0
    later(shop, minutes=6)
    assert unfinished.enqueue_deliveries() == 1
    assert unfinished.enqueue_deliveries() == 0
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_mails(ADA)
        wait_until(shop.at_rest, 30, "the mail to be known as sent")
    assert len(shop.mails_to(ADA)) == 1


def test_mail_is_enqueued_although_its_first_run_was_deleted(shop: Harness) -> None:
    outbound_id = leave_mail(shop)
    later(shop, minutes=6)
    assert unfinished.enqueue_deliveries() == 1
    services.bind(shop.live)
    set_run(shop, run_id_of(DELIVERY, outbound_id, 1), "ERROR")
    delete_run(shop, run_id_of(DELIVERY, outbound_id))
    later(shop, minutes=14)
    assert unfinished.enqueue_deliveries() == 0  # the pause after the second run
    later(shop, minutes=16)
    assert unfinished.enqueue_deliveries() == 1
    assert unfinished.enqueue_deliveries() == 0
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_mails(ADA)
        wait_until(shop.at_rest, 30, "the mail to be known as sent")
    assert len(shop.mails_to(ADA)) == 1


@pytest.mark.parametrize(("state", "ends"), [("queued", "failed"), ("sending", "unknown")])
def test_mail_that_no_run_can_send_becomes_peoples(shop: Harness, state: str, ends: str) -> None:
    outbound_id = leave_mail(shop)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"UPDATE outbound_mails SET status = '{state}'"))
        for number in range(1, 6):
            run_id = shop.live.workflow_client.queue.enqueue_delivery(
                connection, outbound_id, number
            )
    set_run(shop, run_id, "ERROR")
    later(shop, minutes=2)
    assert unfinished.enqueue_deliveries() == 1
    (mail,) = shop.rows("SELECT status FROM outbound_mails WHERE purpose = 'reply'")
    assert mail.status == ends
    services.bind(shop.live)
    with running(shop):
        (told,) = shop.wait_for_mails(TESS)
        (notice,) = shop.wait_for_mails(OPS)
        listed = shop.log_in(OPS).get("/ops?waiting=undelivered").text
    assert ADA in told.subject
    assert outbound_id in notice.subject
    assert "No replay sends it" in notice.text
    assert "/ops?waiting=undelivered" in notice.text
    assert "flask runs replay" not in notice.text
    assert "/replay" not in notice.text
    assert outbound_id in listed


def test_mail_whose_delivery_was_cancelled_is_peoples_after_a_day(shop: Harness) -> None:
    leave_mail(shop)
    (run_id,) = (run.run_id for run in shop.live.workflow_client.runs.list_runs(status="ERROR"))
    set_run(shop, run_id, "CANCELLED")
    later(shop, hours=23)
    assert unfinished.enqueue_deliveries() == 0
    later(shop, hours=25)
    assert unfinished.enqueue_deliveries() == 1
    assert shop.rows("SELECT 1 FROM outbound_mails WHERE status = 'failed'")


def test_rows_behind_a_page_of_waiting_ones_are_seen(shop: Harness) -> None:
    outbound_id = leave_mail(shop)
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(sa.text("SELECT * FROM outbound_mails")).mappings()
        names = ", ".join(row.keys())
        chosen = ", ".join(
            f"'outbound_000{{0}}' || {name}"
            if name in ("outbound_id", "dedup_key", "message_id")
            else name
            for name in row
        )
        for number in range(501):  # all of them before the one that waits, and all at work
            connection.execute(
                sa.text(
                    f"INSERT INTO outbound_mails ({names}) SELECT {chosen.format(number)}"
                    " FROM outbound_mails WHERE outbound_id = :outbound_id"
                ),
                {"outbound_id": outbound_id},
            )
            shop.live.workflow_client.queue.enqueue_delivery(
                connection, f"outbound_000{number}{outbound_id}"
            )
    later(shop, minutes=6)
    assert unfinished.enqueue_deliveries() == 1
