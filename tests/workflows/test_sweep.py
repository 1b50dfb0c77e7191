"""The safety net: rows that nobody looks after are enqueued for, once; what waits too long goes to people."""

from __future__ import annotations

from functools import partial

import pytest
import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.workflows.steps.maintenance import overdue, unfinished
from mailagent.workflows.steps.maintenance import sweep as steps
from mailagent.workflows.steps.maintenance.rows import process_waiting
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, TESS, big_order, order
from tests.harness import Harness, beside, running, wait_until
from tests.workflows.trouble import (
    forget_runs,
    later,
    let_be_missed,
    set_run,
    table_of_runs,
    wait_for_run,
)

pytestmark = pytest.mark.both_databases


def test_a_mail_whose_run_is_lost_is_answered_all_the_same(shop: Harness) -> None:
    shop.stock(order())
    shop.write(KETTLE_WISH)
    forget_runs(shop)
    later(shop, minutes=2)
    assert steps.enqueue_mail() == 1
    assert steps.enqueue_mail() == 0  # the new run is at it
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_refund("paid")


def test_young_mail_is_left_to_its_own_run(shop: Harness) -> None:
    shop.write("Hello")
    forget_runs(shop)
    assert steps.enqueue_mail() == 0


def test_a_mail_with_a_run_at_work_is_left_alone(shop: Harness) -> None:
    shop.write("Hello")
    later(shop, minutes=2)
    assert steps.enqueue_mail() == 0


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_what_a_run_sees_to_while_the_sweep_looks_is_left_alone(
    shop: Harness, ends_meanwhile: bool
) -> None:
    shop.write("Hello")
    seen_to = []

    def runs_of(row: str) -> list[str]:
        if ends_meanwhile:
            with shop.live.database.transaction() as connection:
                connection.execute(sa.text("UPDATE inbound_mails SET status = 'no_answer',"
                                           " no_answer_reason = 'handed_over'"))  # fmt: skip
        return []

    def see_to(row: str, _runs: object) -> int:
        seen_to.append(row)
        return 1

    unanswered = sa.text("SELECT mail_id FROM inbound_mails WHERE status = 'unanswered'")
    done = process_waiting(
        lambda connection, _limit, _after: list(connection.scalars(unanswered)),
        str,
        runs_of,
        see_to,
    )
    assert done == len(seen_to) == (0 if ends_meanwhile else 1)


def test_a_mail_that_waits_too_long_goes_to_people(shop: Harness) -> None:
    shop.write("Hello, is anybody there?")
    forget_runs(shop)
    later(shop, hours=5)
    assert steps.enqueue_mail() == 1
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert mail.status == "answered"
    (thread,) = shop.rows("SELECT status, handed_over_reason FROM conversations")
    assert thread.handed_over_reason == "a mail stayed unanswered for too long"
    assert thread.status == "handed_over"
    services.bind(shop.live)
    with running(shop):
        (case,) = shop.wait_for_mails(TESS)
    assert "is anybody there" in case.text


@pytest.mark.parametrize("act", ["answered", "given back"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_changed_since_the_sweep_read_it_is_left_alone(shop: Harness, act: str) -> None:
    shop.write("Hello, is anybody there?")
    forget_runs(shop)
    later(shop, hours=5)
    now = shop.live.now()
    with shop.live.database.transaction() as connection:
        (row,) = inbound.list_waiting(connection, now, 1)
        if act == "answered":
            inbound.leave_unanswered(connection, [row.mail_id], "somebody was faster")
        else:
            audit.record(connection, now, TESS, audit.GIVEN_BACK, row.conversation_id)
    assert overdue.give_to_people([row]) == 0
    assert shop.rows("SELECT 1 FROM outbound_mails") == []
    assert shop.rows("SELECT status FROM conversations")[0].status == "open"


@pytest.mark.parametrize("status", ["ERROR", "CANCELLED"])
def test_a_failed_run_is_an_operators_until_time_is_up(shop: Harness, status: str) -> None:
    shop.write("Hello")
    schema = "" if shop.live.database.engine.dialect.name == "sqlite" else "dbos."
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"UPDATE {schema}workflow_status SET status = '{status}'"))
    later(shop, minutes=10)
    assert steps.enqueue_mail() == 0
    later(shop, hours=5)
    assert steps.enqueue_mail() == 1


def test_a_refund_without_a_run_gets_one(shop: Harness) -> None:
    shop.stock(big_order())
    with running(shop):
        shop.write(DESK_WISH)
        shop.wait_for_refund("awaiting_approval")
        wait_until(lambda: shop.refunds()[0].run_id is not None, 20, "a run to take the refund")
    forget_runs(shop)
    later(shop, minutes=2)
    assert unfinished.enqueue_refunds() == 1
    assert unfinished.enqueue_refunds() == 0


def test_a_mail_of_ours_that_never_went_out_is_sent(shop: Harness) -> None:
    shop.write("Hello, is anybody there?")
    forget_runs(shop)
    later(shop, hours=5)
    steps.enqueue_mail()
    forget_runs(shop)
    later(shop, hours=5, minutes=2)
    assert unfinished.enqueue_deliveries() == 2
    assert unfinished.enqueue_deliveries() == 0
    services.bind(shop.live)
    with running(shop):
        shop.wait_for_mails(TESS)
        shop.wait_for_mails(ADA)


def test_a_refund_expires_although_its_run_was_cancelled(shop: Harness) -> None:
    shop.stock(big_order())
    with running(shop):
        shop.write(DESK_WISH)
        shop.wait_for_mails(MONA)
        run_id = shop.refunds()[0].run_id
        assert run_id is not None
        shop.live.workflow_client.replays.cancel_run(run_id)
        later(shop, days=1)
        assert unfinished.enqueue_refunds() == 0  # an operator's, for now
        later(shop, days=8)
        assert unfinished.enqueue_refunds() == 1
        assert shop.wait_for_refund("expired").paid_at is None


def test_runs_behind_a_thousand_of_the_living_are_taken_over(shop: Harness) -> None:
    with running(shop):
        shop.write("Hello")
        shop.wait_for_mails(ADA)
        run_id = wait_for_run(shop, "conversation", "SUCCESS")
        with shop.live.database.transaction() as connection:
            (row,) = connection.execute(
                sa.text(f"SELECT * FROM {table_of_runs(shop)} WHERE workflow_uuid = :run_id"),
                {"run_id": run_id},
            ).mappings()
            names = ", ".join(row.keys())
            copied = ", ".join(
                "'copy-' || :number" if name == "workflow_uuid" else name for name in row
            )
            connection.execute(
                sa.text(
                    f"INSERT INTO {table_of_runs(shop)} ({names}) SELECT {copied}"
                    f" FROM {table_of_runs(shop)} WHERE workflow_uuid = :run_id"
                ),
                [{"number": str(number), "run_id": run_id} for number in range(1001)],
            )
            connection.execute(
                sa.text(
                    f"UPDATE {table_of_runs(shop)} SET status = 'PENDING', queue_name = NULL,"
                    " created_at = created_at - 1000"
                    " WHERE workflow_uuid LIKE 'copy-%'"
                )
            )
        let_be_missed(shop)
        set_run(shop, run_id, "PENDING", "gone")
        steps.take_over_runs()
        assert wait_for_run(shop, "conversation", "SUCCESS") == run_id


def test_a_fork_without_a_queue_of_its_own_is_taken_over(busy_shop: Harness) -> None:
    busy_shop.write("Hello")
    busy_shop.wait_for_mails(ADA)
    run_id = wait_for_run(busy_shop, "conversation", "SUCCESS")
    fork = beside(partial(DBOS.fork_workflow, run_id, 1))  # as the DBOS console does
    assert beside(fork.get_result) == "nothing to answer"
    let_be_missed(busy_shop)
    set_run(busy_shop, fork.workflow_id, "PENDING", "gone")
    steps.take_over_runs()

    def is_over() -> bool:
        run = busy_shop.live.workflow_client.runs.find_run(fork.workflow_id)
        return run is not None and run.status == "SUCCESS"

    wait_until(is_over, 30, "the fork to end")


def test_a_mail_that_waits_too_long_goes_to_people_although_a_run_has_it(shop: Harness) -> None:
    shop.write("Hello, is anybody there?")
    later(shop, hours=5)
    assert steps.enqueue_mail() == 1
    assert shop.rows("SELECT status FROM conversations")[0].status == "handed_over"
