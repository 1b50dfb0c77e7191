"""Mail whose time is up: when that is while the model's budget is spent, and how much of it people are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.store import schema
from mailagent.workflows import recovery
from mailagent.workflows.steps.maintenance import overdue
from mailagent.workflows.steps.maintenance import sweep as steps
from mailagent.workflows.steps.maintenance.flood import CASES_PER_HOUR
from tests.cast import ADA, GRACE, NOW, TESS
from tests.harness import Harness, running, wait_until
from tests.workflows.trouble import forget_runs, later, table_of_runs

FOUR_HOURS = timedelta(hours=4)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


@pytest.mark.parametrize(
    ("put_off", "came", "budget_back", "has_budget", "over"),
    [
        (0, 3.9, [], True, False),
        (0, 4, [], True, True),
        (0, 4, [], False, True),  # the budget is not why it waits
        (1, 4, [], True, True),  # its provider was away
        (1, 20, [], False, False),
        (1, 16, [3.9], True, False),
        (1, 16, [4], True, True),
        (1, 16, [4], False, True),  # the next budget did not last for it either
        (1, 40, [28, 1], True, True),
        (1, 4, [5], True, True),  # that was before it came
        (1, 4, [5], False, False),
    ],
)
def test_the_time_of_mail_that_waits_for_a_budget_begins_when_there_is_one(
    put_off: int, came: float, budget_back: list[float], has_budget: bool, over: bool
) -> None:
    row: Any = SimpleNamespace(
        received_at=ago(came), taken_back_at=None, given_back_at=None, put_off=put_off
    )
    returns = [ago(hours) for hours in budget_back]
    assert overdue.Deadlines(NOW, FOUR_HOURS, returns, has_budget).are_over(row) is over


def leave_lying(shop: Harness, *addresses: str) -> None:
    services.bind(shop.live)
    for address in addresses:
        shop.write("Is anybody there?", from_address=address, subject=address)
    forget_runs(shop)


def sweep_at(shop: Harness, minutes: int) -> int:
    """Sweep so many minutes after an hour that begins when all the mail has waited too long."""
    later(shop, hours=6, minutes=minutes - datetime.now(UTC).minute)
    return steps.enqueue_mail()


def customers(count: int) -> list[str]:
    return [f"c{number}@example.com" for number in range(count)]


def letters_to_team(shop: Harness) -> list[str]:
    statement = "SELECT purpose FROM outbound_mails WHERE to_address = :a ORDER BY outbound_id"
    return [row.purpose for row in shop.rows(statement, a=TESS)]


def statuses(shop: Harness) -> set[str]:
    return {row.status for row in shop.rows("SELECT status FROM conversations")}


def test_a_few_are_a_case_each(shop: Harness) -> None:
    leave_lying(shop, *customers(CASES_PER_HOUR))
    assert sweep_at(shop, 30) == CASES_PER_HOUR
    assert letters_to_team(shop) == ["hand_over"] * CASES_PER_HOUR


def test_many_are_one_notice_and_stand_in_the_inbox(shop: Harness) -> None:
    leave_lying(shop, *customers(CASES_PER_HOUR + 1))
    assert sweep_at(shop, 30) == CASES_PER_HOUR + 1
    assert letters_to_team(shop) == ["notice"]
    (notice,) = shop.rows("SELECT subject, text FROM outbound_mails WHERE purpose = 'notice'")
    assert f"{CASES_PER_HOUR + 1} mails" in notice.subject
    assert "1 from c0@example.com" in notice.text
    assert statuses(shop) == {"handed_over"}


def test_what_comes_on_top_waits_for_the_notice_of_the_next_hour(shop: Harness) -> None:
    leave_lying(shop, *customers(CASES_PER_HOUR))
    sweep_at(shop, 10)
    leave_lying(shop, GRACE)
    assert sweep_at(shop, 20) == 1
    assert letters_to_team(shop).count("notice") == 1
    leave_lying(shop, ADA)
    assert sweep_at(shop, 30) == 0
    assert statuses(shop) == {"handed_over", "open"}
    assert sweep_at(shop, 75) == 1
    assert letters_to_team(shop).count("notice") == 1  # the cases of the hour before count no more
    assert statuses(shop) == {"handed_over"}


def test_a_proven_customer_is_told_once_that_a_person_takes_over(shop: Harness) -> None:
    services.bind(shop.live)
    first = shop.write("Is anybody there?")
    shop.write("Hello?", in_reply_to=first.message_id)
    forget_runs(shop)
    assert len(statuses(shop)) == len(shop.rows("SELECT 1 FROM conversations")) == 1
    assert sweep_at(shop, 30) == 2
    assert sweep_at(shop, 31) == 0
    (told,) = shop.rows("SELECT * FROM outbound_mails WHERE to_address = :a", a=ADA)
    assert "A colleague is taking over from here" in told.text
    mails = shop.rows("SELECT answered_by, no_answer_reason FROM inbound_mails")
    assert {(mail.answered_by, mail.no_answer_reason) for mail in mails} == {
        (told.outbound_id, None),
        (None, "a mail stayed unanswered for too long"),
    }
    assert letters_to_team(shop) == ["hand_over"] * 2
    services.bind(shop.live)
    with running(shop):
        assert len(shop.wait_for_mails(ADA)) == 1


def test_a_forged_mail_that_came_before_keeps_no_customer_from_being_told(shop: Harness) -> None:
    services.bind(shop.live)
    first = shop.write("Where is my parcel?")
    with shop.live.database.transaction() as connection:
        connection.execute(schema.inbound_mails.update().values(identity="none"))
    shop.write("Is anybody there?", in_reply_to=first.message_id)
    forget_runs(shop)
    assert sweep_at(shop, 30) == 2
    assert len(shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :a", a=ADA)) == 1


def test_an_unproven_sender_is_not_told_that_a_person_takes_over(shop: Harness) -> None:
    services.bind(shop.live)
    shop.write("Is anybody there?", aligned=False)
    forget_runs(shop)
    assert sweep_at(shop, 30) == 1
    assert letters_to_team(shop) == ["hand_over"]
    assert shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :a", a=ADA) == []


# --- late sweeps ----------------------------------------------------------------------------------


def sweeps(shop: Harness) -> list[str]:
    found = shop.rows(
        f"SELECT workflow_uuid, status FROM {table_of_runs(shop)} WHERE name = 'sweep'"
    )
    return [row.status for row in found if row.workflow_uuid.endswith("-late")]


def test_a_sweep_is_begun_where_the_schedule_begins_none_and_only_one(shop: Harness) -> None:
    assert recovery.enqueue_late_sweep()
    assert not recovery.enqueue_late_sweep()
    assert len(sweeps(shop)) == 1
    with running(shop):
        wait_until(lambda: sweeps(shop) == ["SUCCESS"], 30, "the sweep to end")
    assert not recovery.enqueue_late_sweep()


@pytest.mark.parametrize(
    ("ended_ago", "late"),
    [
        (timedelta(seconds=170), False),
        (timedelta(seconds=190), True),
        (timedelta(hours=-1), True),  # by a database whose clock was set back since
    ],
    ids=["lately", "long ago", "in the future"],
)
def test_a_sweep_counts_for_three_minutes_by_the_databases_clock(
    shop: Harness, ended_ago: timedelta, late: bool
) -> None:
    assert recovery.enqueue_late_sweep()
    ended_at = shop.live.now() - ended_ago
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                f"UPDATE {table_of_runs(shop)} SET status = 'SUCCESS', completed_at = :at"
                " WHERE name = 'sweep'"
            ),
            {"at": int(ended_at.timestamp() * 1000)},
        )
        assert shop.live.workflow_client.tables.is_sweep_late(connection, shop.live.now()) is late
