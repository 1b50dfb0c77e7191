"""SendGrid refuses mail: one mail for what is wrong with it, or all mail because something is wrong there.
People are told of the first, operators of the second, once, and nothing of it is lost."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mailagent import mailers, services
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.store import schema
from mailagent.store.operations import circuit_breakers
from mailagent.workflows.steps import operators
from mailagent.workflows.steps.delivery import send
from mailagent.workflows.steps.maintenance import unfinished
from tests.cast import GRACE, MAX, MONA, OLGA, TESS
from tests.harness import Harness, running, wait_until
from tests.programs.stampede.story import Clock
from tests.round_trips.provider_faults import no_key

look: Callable[[str], Any] = inspect.unwrap(send.look_at_delivery)

Accept = Callable[[], Answer]


def refused(field: str | None = None) -> Callable[[Accept], Answer]:
    """Return a SendGrid that answers 400, whatever it is sent."""
    error = {"message": "Bad Request", "field": field, "help": None}
    return lambda _accept: Answer(400, {"errors": [error]})


BAD_ADDRESS = "personalizations.0.to.0.email"


@pytest.fixture
def clock(shop: Harness) -> Clock:
    clock = Clock()
    services.bind(replace(shop.live, now=clock.now))
    return clock


def write(*addresses: str) -> list[str]:
    """Write a mail to each of these addresses; return their ids."""
    with services.current().database.transaction() as connection:
        notice = mailers.Notice(f"test:{addresses}", "Something needs you", ["Please look."])
        return mailers.write_notice(connection, notice, addresses)


def states(shop: Harness, *outbound_ids: str) -> list[str]:
    rows = shop.rows("SELECT outbound_id, status FROM outbound_mails")
    known = {row.outbound_id: row.status for row in rows}
    return [known[outbound_id] for outbound_id in outbound_ids]


def queued(shop: Harness) -> list[str]:
    rows = shop.rows(
        "SELECT outbound_id FROM outbound_mails WHERE status = 'queued' ORDER BY outbound_id"
    )
    return [row.outbound_id for row in rows]


def deliver(shop: Harness) -> None:
    """Do for each mail that waits what its run would do now."""
    for outbound_id in queued(shop):
        if look(outbound_id)["kind"] == "send":
            send.send_mail(outbound_id)


def told(shop: Harness, address: str) -> list[str]:
    return [mail.subject for mail in shop.mails_to(address)]


@pytest.mark.parametrize("field", [None, BAD_ADDRESS])
def test_when_everything_is_refused_everything_goes_out_later_and_operators_hear_once(
    shop: Harness, clock: Clock, field: str | None
) -> None:
    with running(shop):
        pass  # a worker has registered the queues, without which the check says nothing else
    people = [f"customer{number}@example.com" for number in range(6)] + [TESS, MONA]
    waiting = write(*people)
    shop.faults.sendgrid += [refused(field)] * 1_000
    for _ in range(12):  # a minute
        deliver(shop)
        clock.put_forward(5)
    assert set(states(shop, *waiting)) == {"queued"}
    assert len(shop.faults.asked) < 12  # a breaker, not a storm
    checked = shop.app.test_cli_runner().invoke(args=["check"])
    assert "SendGrid refuses us" in checked.output
    assert "did not arrive" not in checked.output
    shop.faults.sendgrid.clear()
    clock.put_forward(60)
    deliver(shop)
    deliver(shop)
    assert set(states(shop, *waiting)) == {"sent"}
    assert [len(shop.mails_to(address)) for address in people] == [1] * len(people)
    assert told(shop, OLGA) == ["SendGrid has refused mail of ours"]
    assert "takes mail again" in shop.mails_to(OLGA)[0].text
    assert told(shop, TESS) == ["Something needs you"]
    operators.report_failed_runs()
    checked = shop.app.test_cli_runner().invoke(args=["check"])
    assert "SendGrid refuses us" not in checked.output
    assert "did not arrive" not in checked.output


@pytest.mark.parametrize("field", [None, BAD_ADDRESS])
def test_a_mail_that_alone_is_refused_has_failed_and_people_are_told(
    shop: Harness, clock: Clock, field: str | None
) -> None:
    (alone,) = write("no such@example.com")
    shop.faults.sendgrid.append(refused(field))
    send.send_mail(alone)
    for other in (GRACE, MAX):
        assert states(shop, alone) == ["queued"]
        clock.put_forward(1)
        assert send.send_mail(*write(other)) == "sent"
        clock.put_forward(20)
        shop.faults.sendgrid.append(refused(field))
        deliver(shop)
    assert states(shop, alone) == ["failed"]
    deliver(shop)
    assert told(shop, OLGA) == []


def test_a_sendgrid_that_comes_and_goes_loses_no_mail(shop: Harness, clock: Clock) -> None:
    people = [f"customer{number}@example.com" for number in range(6)]
    waiting = write(*people)
    for number in range(4):
        shop.faults.sendgrid += [refused()] * 1_000
        for outbound_id in waiting:
            send.send_mail(outbound_id)
            clock.put_forward(6)
        shop.faults.sendgrid.clear()
        clock.put_forward(40)
        assert send.send_mail(*write(f"other{number}@example.com")) == "sent"
        clock.put_forward(40)
    assert "failed" not in states(shop, *waiting)
    for _ in range(3):
        clock.put_forward(60)
        deliver(shop)
    assert set(states(shop, *waiting)) == {"sent"}


def test_three_bad_addresses_do_not_stop_the_mail_of_others_for_long(
    shop: Harness, clock: Clock
) -> None:
    bad = write(*(f"no such{number}@example.com" for number in range(3)))
    for number in range(12):
        for outbound_id in bad:
            shop.faults.sendgrid.append(refused(BAD_ADDRESS))
            send.send_mail(outbound_id)
            shop.faults.sendgrid.clear()
            clock.put_forward(40)
        send.send_mail(*write(f"other{number}@example.com"))
        clock.put_forward(40)
    assert states(shop, *bad) == ["failed"] * 3


def test_what_was_accepted_before_says_nothing_of_a_refusal(shop: Harness, clock: Clock) -> None:
    (before, alone) = write(GRACE, "customer@example.com")
    send.send_mail(before)
    shop.faults.sendgrid += [refused()] * 2
    send.send_mail(alone)
    clock.put_forward(10)
    send.send_mail(alone)
    assert states(shop, alone) == ["queued"]
    assert send.send_mail(alone) == "sent"


def test_where_nothing_else_is_sent_the_word_to_operators_shows_what_it_is_about(
    shop: Harness, clock: Clock
) -> None:
    (alone,) = write("customer@example.com")
    shop.faults.sendgrid += [refused()] * 5
    for _ in range(5):
        assert send.send_mail(alone) == "queued"
        clock.put_forward(31)
    assert shop.faults.sendgrid == []
    clock.put_forward(130)
    (word,) = [each for each in queued(shop) if each != alone]
    assert send.send_mail(word) == "sent"
    assert told(shop, OLGA) == ["SendGrid has refused mail of ours"]
    clock.put_forward(1)
    shop.faults.sendgrid.append(refused())
    assert look(alone)["kind"] == "send"  # taken up with the first that went out
    assert send.send_mail(alone) == "queued"
    clock.put_forward(5)
    assert send.send_mail(*write(MAX)) == "sent"
    clock.put_forward(5)
    shop.faults.sendgrid.append(refused())
    assert send.send_mail(alone) == "failed"


def test_a_field_that_is_wrong_in_a_quiet_shop_is_peoples_after_two_minutes(
    shop: Harness, clock: Clock
) -> None:
    (alone,) = write("customer@example.com")
    shop.faults.sendgrid += [refused(BAD_ADDRESS)] * 5
    for _ in range(5):
        send.send_mail(alone)
        clock.put_forward(31)
    assert states(shop, alone) == ["failed"]
    deliver(shop)
    assert told(shop, OLGA) == []


def test_a_mail_that_cannot_be_sent_at_all_says_nothing_of_sendgrid(
    shop: Harness, clock: Clock
) -> None:
    (broken, other) = write(GRACE, MAX)
    with shop.live.database.transaction() as connection:
        failure = Failure("answered 401", needs_operator=True)
        circuit_breakers.record_failure(
            connection, services.current().providers.mail, failure, clock.now(), probing=False
        )
        connection.exec_driver_sql(
            f"UPDATE outbound_mails SET message_id = 'none' WHERE outbound_id = '{broken}'"
        )
    clock.put_forward(30)
    assert send.send_mail(broken) == "failed"
    with shop.live.database.snapshot() as connection:
        assert circuit_breakers.find(connection, services.current().providers.mail) is not None
    assert send.send_mail(other) == "sent"


# --- the queue follows the first that goes out ----------------------------------------------------


def test_all_mail_that_waits_is_due_when_one_has_gone_out(shop: Harness, clock: Clock) -> None:
    waiting = write(GRACE, MAX, MONA, TESS)
    shop.faults.sendgrid.append(no_key)
    for outbound_id in waiting:
        send.send_mail(outbound_id)
    clock.put_forward(45)
    assert {look(outbound_id)["kind"] for outbound_id in waiting} == {"wait"}
    (first,) = write(OLGA)
    assert send.send_mail(first) == "sent"
    assert {look(outbound_id)["kind"] for outbound_id in waiting} == {"send"}


def test_the_sweep_lets_one_mail_try_and_the_others_follow(shop: Harness, clock: Clock) -> None:
    waiting = write(GRACE, MAX, MONA)
    shop.faults.sendgrid.append(no_key)
    for outbound_id in waiting:
        send.send_mail(outbound_id)
    unfinished.enqueue_deliveries()
    assert {look(outbound_id)["kind"] for outbound_id in waiting} == {"wait"}
    clock.put_forward(15)
    unfinished.enqueue_deliveries()
    assert sorted(look(outbound_id)["kind"] for outbound_id in waiting) == ["send", "wait", "wait"]


@pytest.fixture
def away(shop: Harness) -> Iterator[Harness]:
    """A running shop whose SendGrid is away for ten minutes, by its breaker."""
    with running(shop):
        with shop.live.database.transaction() as connection:
            failure = Failure("refuses us", wish_seconds=600, needs_operator=True)
            circuit_breakers.record_failure(
                connection,
                services.current().providers.mail,
                failure,
                shop.live.now(),
                probing=False,
            )
        yield shop


def test_runs_that_wait_hear_that_sendgrid_is_back(away: Harness) -> None:
    for number in range(3):
        away.write("Which orders do you have?", from_address=f"customer{number}@example.com")

    def waits() -> bool:
        runs = away.live.workflow_client.runs.list_runs(status="PENDING")
        return sum(run.workflow == "delivery" for run in runs) == 3 and len(put_off(away)) == 3

    wait_until(waits, 30, "three mails that wait")
    with away.live.database.transaction() as connection:
        now = away.live.now() - timedelta(seconds=1)
        connection.execute(schema.breakers.update().values(until_at=now))
    (first, *_) = put_off(away)
    assert send.send_mail(first) == "sent"
    wait_until(away.at_rest, 20, "the others to follow")
    assert [len(away.mails_to(f"customer{number}@example.com")) for number in range(3)] == [1, 1, 1]


def put_off(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT outbound_id FROM outbound_mails WHERE next_attempt_at IS NOT NULL")
    return [row.outbound_id for row in rows]
