"""Asking managers by dates: a step that is done twice asks once, and what was done stands on record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.message import OutboundStatus
from mailagent.domain.refunds.escalation import Skip
from mailagent.mailers import approval_routing
from mailagent.mailers.approval_routing import load_routing
from mailagent.store.mail import outbound
from mailagent.store.refunds import approvals, refunds
from mailagent.workflows.steps.delivery.undeliverable import act_on_lost
from mailagent.workflows.steps.refund import decision
from tests.cast import MAX, MONA, OLGA, TESS, order
from tests.harness import Harness
from tests.workflows.paying import propose

claim: Callable[[str], Any] = inspect.unwrap(decision.claim_refund)
look: Callable[[str], Any] = inspect.unwrap(decision.look_at_decision)


def ask(refund_id: str) -> list[str]:
    """Have whoever is due be asked or reminded; return the mails to send."""
    outbound_ids: list[str] = look(refund_id)["outbound_ids"]
    return outbound_ids


DAY = 24 * 3600
ZOE = "zoe@shop.example"


@pytest.fixture
def refund_id(shop: Harness) -> str:
    """A refund that waits for a manager; no run is at it."""
    shop.stock(order(status="shipped", delivered_at=None))
    propose(shop)
    return shop.refunds()[0].refund_id


def at(shop: Harness, seconds: float) -> None:
    then = shop.live.now() + timedelta(seconds=seconds)
    services.bind(replace(shop.live, now=lambda: then))


def mails(shop: Harness, address: str) -> list[Any]:
    return shop.rows(
        "SELECT * FROM outbound_mails WHERE to_address = :to ORDER BY outbound_id", to=address
    )


def lose(shop: Harness, outbound_id: str) -> None:
    """Have a mail of ours not reach its reader."""
    with shop.live.database.transaction() as connection:
        mail = outbound.load(connection, outbound_id)
        outbound.set_status(connection, outbound_id, OutboundStatus.UNDELIVERED, shop.live.now())
        act_on_lost(connection, mail, OutboundStatus.UNDELIVERED, "mailbox full")


def test_a_step_that_is_done_again_asks_and_reminds_once(shop: Harness, refund_id: str) -> None:
    assert ask(refund_id) == ask(refund_id) == [mails(shop, MONA)[0].outbound_id]
    at(shop, DAY)
    for _ in range(2):  # the first one died before it was recorded
        state = look(refund_id)
        assert state["outbound_ids"] == [mail.outbound_id for mail in mails(shop, MONA)]
    assert len(mails(shop, MONA)) == 2


@pytest.mark.parametrize(
    ("seconds", "wait_seconds"), [(0, 6 * 3600), (DAY - 600, 600), (7 * DAY - 600, 600)]
)
def test_it_sleeps_until_something_is_due_but_never_over_six_hours(
    shop: Harness, refund_id: str, seconds: float, wait_seconds: float
) -> None:
    ask(refund_id)
    at(shop, seconds)
    assert look(refund_id)["wait_seconds"] == pytest.approx(wait_seconds, abs=30)


def test_a_mail_that_is_lost_has_the_next_asked_and_is_remembered_for_a_day(
    shop: Harness, refund_id: str
) -> None:
    ask(refund_id)
    lose(shop, mails(shop, MONA)[0].outbound_id)
    (row,) = shop.rows("SELECT * FROM approval_requests WHERE manager_email = :mona", mona=MONA)
    assert row.skipped_why == Skip.UNDELIVERED
    assert len(mails(shop, MAX)) == 1
    (absence,) = shop.rows("SELECT manager_email FROM manager_absences")
    assert absence.manager_email == MONA
    lose(shop, mails(shop, MAX)[0].outbound_id)
    assert len(mails(shop, TESS)) == 1  # nobody is left: the team is told
    at(shop, DAY + 60)
    look(refund_id)
    assert len(mails(shop, MONA)) == 2  # reminded: else nobody would be


def test_that_nobody_is_left_is_logged_without_an_address(
    shop: Harness, refund_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    ask(refund_id)
    alone = replace(shop.live.shop, manager_emails=(MONA,), team_emails=(), ops_emails=())
    services.bind(replace(shop.live, shop=alone))
    lose(shop, mails(shop, MONA)[0].outbound_id)
    assert "event=lost: no team member" in caplog.text
    assert "@" not in caplog.text


def test_a_lost_reminder_tells_nobody_while_somebody_else_has_the_question(
    shop: Harness, refund_id: str
) -> None:
    ask(refund_id)
    at(shop, 2 * DAY)
    look(refund_id)
    lose(shop, mails(shop, MONA)[1].outbound_id)
    assert len(mails(shop, MAX)) == 1
    assert mails(shop, TESS) == []


def test_those_before_are_told_who_is_asked_too(shop: Harness, refund_id: str) -> None:
    shop_with = replace(shop.live.shop, manager_emails=(MONA, MAX, ZOE))
    waits = replace(shop.live.waits, approval_reminder_seconds=30 * DAY)
    services.bind(replace(shop.live, shop=shop_with, waits=waits))
    ask(refund_id)
    shop.live = services.current()
    at(shop, 2 * DAY)
    look(refund_id)
    (notice,) = [mail for mail in mails(shop, MONA) if mail.purpose == "notice"]
    assert notice.subject.startswith(f"{MAX} is asked, too")
    assert "/approvals/" not in notice.text
    services.bind(shop.live)
    shop.write(
        "approve",
        from_address=MONA,
        to=shop.live.shop.support_address,
        in_reply_to=notice.message_id,
    )
    (reply,) = shop.rows("SELECT * FROM inbound_mails WHERE from_address = :mona", mona=MONA)
    assert (reply.kind, reply.conversation_id) == ("manager", None)  # no customer's conversation
    assert reply.rate_limit_key is None  # it uses up nothing of what customers may write
    assert mails(shop, MONA)[-1].subject.startswith("Nothing recorded")


# --- nobody is there -------------------------------------------------------------------------------


def goes_away(shop: Harness, refund_id: str, manager: str) -> None:
    with shop.live.database.transaction() as connection:
        mailers.ask_next_manager(connection, refund_id, manager, Skip.AWAY)


def unread(shop: Harness, address: str) -> list[Any]:
    return [each for each in mails(shop, address) if each.subject.startswith("Nobody reads")]


def test_people_are_told_once_when_nobody_is_left_who_reads_a_request(
    shop: Harness, refund_id: str
) -> None:
    ask(refund_id)
    goes_away(shop, refund_id, MONA)
    assert unread(shop, TESS) == []  # Max has it
    goes_away(shop, refund_id, MAX)
    at(shop, 3600)
    look(refund_id)
    (told,) = unread(shop, TESS)
    assert f"{MONA}: {Skip.AWAY}." in told.text
    assert "it is closed without a refund" in told.text
    assert unread(shop, MONA) == unread(shop, OLGA) == []


def test_people_are_told_of_a_request_that_begins_while_everybody_is_away(
    shop: Harness, refund_id: str
) -> None:
    with shop.live.database.transaction() as connection:
        for manager in (MONA, MAX):
            until = shop.live.now() + timedelta(days=1)
            approvals.record_absence(connection, manager, "away", shop.live.now(), until)
    ask(refund_id)
    ask(refund_id)
    assert len(mails(shop, MONA)) == 1
    assert len(unread(shop, TESS)) == 1


@pytest.mark.parametrize(
    ("team", "told"), [((TESS,), TESS), ((), OLGA), ((MONA,), OLGA)], ids=["team", "ops", "herself"]
)
def test_all_who_were_asked_hear_of_the_end_and_others_where_none_of_them_was_there(
    shop: Harness, refund_id: str, team: tuple[str, ...], told: str
) -> None:
    services.bind(replace(shop.live, shop=replace(shop.live.shop, team_emails=team)))
    shop.live = services.current()
    ask(refund_id)
    goes_away(shop, refund_id, MONA)
    goes_away(shop, refund_id, MAX)
    at(shop, 7 * DAY)
    assert look(refund_id)["status"] == "expired"
    for address in (MONA, MAX, told):
        assert mails(shop, address)[-1].subject.startswith("Closed without a decision")


def test_the_team_does_not_hear_of_the_end_where_a_manager_was_there(
    shop: Harness, refund_id: str
) -> None:
    ask(refund_id)
    goes_away(shop, refund_id, MONA)
    at(shop, 7 * DAY)
    look(refund_id)
    assert [mails(shop, each)[-1].purpose for each in (MONA, MAX)] == ["notice", "notice"]
    assert mails(shop, TESS) == []


def own(shop: Harness, owner: str) -> None:
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE orders SET customer_email = :owner"), {"owner": owner})


def test_a_manager_is_not_asked_about_an_order_of_their_own(shop: Harness, refund_id: str) -> None:
    own(shop, MONA)
    assert ask(refund_id) == [mails(shop, MAX)[0].outbound_id]
    assert mails(shop, MONA) == []


def test_where_only_the_owner_is_left_people_are_told_once_and_nothing_is_paid(
    shop: Harness, refund_id: str
) -> None:
    own(shop, MONA)
    alone = replace(shop.live, shop=replace(shop.live.shop, manager_emails=(MONA,)))
    services.bind(alone)
    assert ask(refund_id) == []
    assert look(refund_id)["status"] == "awaiting_approval"
    assert mails(shop, MONA) == mails(shop, MAX) == []
    for reader in (TESS, OLGA):
        (notice,) = mails(shop, reader)
        assert "Nobody can decide" in notice.subject
        assert "MANAGER_EMAILS" in notice.text
    services.bind(shop.live)
    assert look(refund_id)["outbound_ids"] == [mails(shop, MAX)[0].outbound_id]
    services.bind(alone)
    at(shop, 8 * DAY)
    assert look(refund_id)["status"] == "expired"


# --- what it costs, and that nothing is missed for it ---------------------------------------------


def test_how_things_stand_after_a_change_is_what_is_on_record(
    shop: Harness, refund_id: str
) -> None:
    services.bind(replace(shop.live, shop=replace(shop.live.shop, manager_emails=(ZOE, MONA, MAX))))
    shop.live = services.current()
    at(shop, 0)
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, refund_id)
        routing = load_routing(connection, refund)
        for manager in (ZOE, MONA):  # at the same moment
            request = approval_routing.record_request(connection, refund, routing, manager)
            routing = routing.with_request(request)
            assert routing == load_routing(connection, refund)
        assert [each.manager_email for each in routing.requests] == [MONA, ZOE]
        reminded = approvals.record_reminder(connection, routing.requests[1], routing.now)
        assert routing.with_request(reminded) == load_routing(connection, refund)
        routing = approval_routing.skip(connection, refund, MONA, Skip.AWAY)
        assert routing == load_routing(connection, refund)
        assert routing.instead is None
        assert approval_routing.skip(connection, refund, ZOE, Skip.AWAY).instead == MAX
