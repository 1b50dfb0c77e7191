"""Real processes on PostgreSQL that are stopped, killed and asked to end while they are at work."""

from __future__ import annotations

import http.client
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, build_body
from mailagent.store import schema
from tests.cast import ADA, DESK_WISH, MONA, big_order, order
from tests.databases import postgres_copy
from tests.dbos_command import dbos
from tests.harness import Harness, letter, open_shop, running, wait_until
from tests.processes import Web, Worker, base_environment
from tests.programs.soak.take_overs import count_left, see_taken_over
from tests.round_trips.provider_faults import model_says
from tests.workflows.trouble import let_be_missed, wait_for_run

WISH = "My kettle from order {} arrived broken. I want my money back."


@pytest.fixture
def shop(tmp_path: Path, postgres_url: str, migrated_postgres: str) -> Iterator[Harness]:
    """A shop on PostgreSQL with a worker of its own; other processes share its environment."""
    with (
        postgres_copy(postgres_url, migrated_postgres) as url,
        open_shop(
            tmp_path, impatient(url), {"WORKER_ID": "here", "MAIL_OUTCOME_SECONDS": "60"}
        ) as harness,
    ):
        harness.app.config["FOLDER"] = tmp_path
        yield harness


def impatient(url: str) -> str:
    """Let the server end the transaction of a process that was stopped after a second, not after twenty."""
    options = "-c idle_in_transaction_session_timeout=1000"
    changed = sa.make_url(url).update_query_dict({"options": options})
    return changed.render_as_string(hide_password=False)


def environment(shop: Harness, **more: str) -> dict[str, str]:
    """Return what a process gets that shares the shop's database and providers."""
    return {**base_environment(), **shop.environ, **more}


def worker(shop: Harness, name: str, *arguments: str, **more: str) -> Worker:
    folder = shop.app.config["FOLDER"]
    if arguments:
        return Worker(name, environment(shop, **more), folder, arguments)
    return Worker(name, environment(shop, **more), folder)


def ask_for_money_back(shop: Harness, number: int) -> str:
    """Let a customer of their own ask for money; return their address."""
    address = f"ada.{number}@example.com"
    order_id = f"W{1000 + number}"
    shop.stock(order(order_id, customer={"email": address, "name": "Ada Example"}))
    shop.write(WISH.format(order_id), from_address=address)
    return address


def let_vanish(shop: Harness, worker_id: str) -> None:
    """Let a minute pass in which a worker was not seen, and this shop's own was."""
    with shop.live.database.transaction() as connection:
        connection.execute(
            schema.workers.update()
            .where(schema.workers.c.worker_id == worker_id)
            .values(seen_at=sa.func.now() - timedelta(minutes=1))
        )
    let_be_missed(shop)


def is_settled(shop: Harness, refunds: int) -> bool:
    return [refund.status for refund in shop.refunds()] == ["paid"] * refunds and not shop.rows(
        "SELECT 1 FROM dbos.workflow_status WHERE status IN ('PENDING', 'ENQUEUED')"
        " AND name IN ('conversation', 'refund')"
    )


def has_gone_on(journal: Path, noted: str) -> bool:
    """Whether the step at which a worker stopped came to its end when it was continued."""
    step, _, point = noted.splitlines()[-1].partition(" ")
    since = journal.read_text("utf-8").removeprefix(noted).splitlines()
    return point == "after" or f"{step} after" in since


STOPS = ("write_reply after", "send_mail claimed", "pay_refund intended", "pay_refund asked")


def test_a_worker_that_was_stopped_in_the_middle_of_a_step_does_nothing_twice(
    shop: Harness,
) -> None:
    folder: Path = shop.app.config["FOLDER"]
    journal, stop_at = folder / "journal", folder / "stop-at"
    stopped = worker(
        shop, "stopped", "tests.workflows.stopping_worker",
        MAILAGENT_STOP_AT=str(stop_at), MAILAGENT_JOURNAL=str(journal),
    )  # fmt: skip
    stopped.start_and_wait()
    try:
        for number, point in enumerate(STOPS, start=1):
            stop_at.write_text(point, "utf-8")
            customer = ask_for_money_back(shop, number)
            wait_until(lambda: stopped.is_stopped, 30, f"the worker to stop itself at {point}")
            noted = journal.read_text("utf-8")
            with running(shop):
                let_vanish(shop, "stopped")
                if point != "send_mail claimed":  # only who has it can say what became of that mail
                    wait_until(partial(is_settled, shop, number), 30, f"{point} to be taken over")
                stopped.thaw()
                wait_until(partial(has_gone_on, journal, noted), 30, f"it to go on after {point}")
                shop.wait_for_mails(customer, 2)
                wait_until(partial(is_settled, shop, number), 30, f"{point} to be settled")
    finally:
        stopped.kill()
    assert len(shop.rows("SELECT * FROM ledger_entries")) == len(STOPS)
    sent = [mail.custom_args["outbound_id"] for mail in shop.mailboxes.sent()]
    assert len(sent) == len(set(sent)) == 2 * len(STOPS)
    assert shop.live.workflow_client.runs.list_runs(status="ERROR") == []


def hang(gate: threading.Event) -> Answer:
    gate.wait(60)
    return Answer(503)


CONVERSATIONS = "SELECT executor_id, status FROM dbos.workflow_status WHERE name = 'conversation'"


def test_what_a_killed_worker_had_is_done_by_another_within_a_minute(shop: Harness) -> None:
    gate = threading.Event()
    shop.faults.openai.append(partial(hang, gate))
    workers = {name: worker(shop, name) for name in ("one", "other")}
    try:
        for each in workers.values():
            each.start_and_wait()
        customer = ask_for_money_back(shop, 1)
        wait_until(lambda: not shop.faults.openai, 30, "the model to be asked")
        ((name, _),) = shop.rows(CONVERSATIONS)
        workers.pop(name).kill()
        killed_at = time.monotonic()
        taken_over = see_taken_over(name, partial(count_left, shop.live.database))
        assert taken_over.runs >= 1
        assert taken_over.seconds < 60
        shop.wait_for_mails(customer, 2, seconds=60)
        wait_until(partial(is_settled, shop, 1), 10, "every run to end")
        took = time.monotonic() - killed_at
        print(f"taken over {taken_over.seconds:.1f} s after the kill, done after {took:.1f} s")  # noqa: T201 - for whoever runs it with -s
        assert took < 60
        assert [tuple(row) for row in shop.rows(CONVERSATIONS)] == [(*workers, "SUCCESS")]
    finally:
        gate.set()
        for each in workers.values():
            each.kill()
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
    assert len(shop.mails_to(customer)) == 2


def test_a_worker_that_is_asked_to_end_leaves_what_hangs_and_asked_twice_at_once(
    shop: Harness,
) -> None:
    gate = threading.Event()
    shop.faults.openai.append(partial(hang, gate))
    leaving = worker(shop, "leaving", "flask", "--app", "wsgi", "worker", "--drain-seconds", "600")
    leaving.start_and_wait()
    try:
        customer = ask_for_money_back(shop, 1)
        wait_until(lambda: not shop.faults.openai, 30, "the model to be asked")
        leaving.ask_to_end()
        wait_until(lambda: "Stopping" in leaving.said(), 20, "the first signal to be heard")
        assert leaving.lives
        leaving.ask_to_end(signal.SIGINT)
        leaving.wait(20)
        assert shop.rows("SELECT * FROM workers") == []
        states = shop.rows("SELECT status FROM dbos.workflow_status WHERE name = 'conversation'")
        assert [row.status for row in states] == ["ENQUEUED"]
        with running(shop):
            shop.wait_for_mails(customer, 2)
    finally:
        gate.set()
        leaving.kill()
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
    assert "Traceback" not in leaving.said()


def post_slowly(port: int, body: bytes, headers: dict[str, str], halfway: threading.Event) -> int:
    """Post one half of a body, and the other when it is `halfway`; return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("POST", "/webhooks/sendgrid/inbound")
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body[: len(body) // 2])
    halfway.wait(30)
    connection.send(body[len(body) // 2 :])
    return connection.getresponse().status


def test_a_big_mail_that_is_coming_in_is_taken_before_all_in_one_process_ends(
    shop: Harness,
) -> None:
    shop.stock(big_order())
    web = Web("web", environment(shop), shop.app.config["FOLDER"], role="all")
    web.start_and_wait()
    shop.write(DESK_WISH)
    shop.wait_for_mails(MONA)  # a refund that waits must not hold up the end
    body = build_body(letter("Hello\n" + "It is big. " * 2_000_000, from_address=ADA))
    headers = {"Content-Type": CONTENT_TYPE, **shop.inbound_key.sign(body)}
    halfway, answers = threading.Event(), list[int]()
    poster = threading.Thread(
        target=lambda: answers.append(post_slowly(web.port, body, headers, halfway))
    )
    try:
        poster.start()
        wait_until(lambda: is_reading(web), 20, "the mail to come in")
        web.ask_to_end()
        wait_until(lambda: not shop.rows("SELECT 1 FROM workers"), 20, "the worker to sign out")
        assert web.lives
        halfway.set()
        web.wait(25)
        poster.join(30)
    finally:
        web.kill()
    assert answers == [200]
    assert len(shop.rows("SELECT 1 FROM inbound_mails")) == 2
    states = shop.rows("SELECT DISTINCT status FROM dbos.workflow_status WHERE name = 'refund'")
    assert [row.status for row in states] == ["ENQUEUED"]


def is_reading(web: Web) -> bool:
    """Whether the app holds a connection that somebody writes to (proc_net_tcp(5))."""
    local = f":{web.port:04X} "
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()
    return any(
        local in line.split(maxsplit=2)[1] + " " and line.split()[3] == "01" for line in lines
    )


def test_workers_that_are_replaced_under_load_lose_and_double_nothing(shop: Harness) -> None:
    workers = [worker(shop, f"rolling-{number}") for number in (1, 2)]
    for each in workers:
        each.start_and_wait()
    writing, customers = threading.Event(), list[str]()

    def write() -> None:
        while not writing.is_set():
            customers.append(ask_for_money_back(shop, len(customers) + 1))
            time.sleep(0.3)

    thread = threading.Thread(target=write)
    try:
        thread.start()
        workers[0].ask_to_end()
        workers[0].wait(25)
        workers[0].start_and_wait()
        workers[1].kill()
        let_vanish(shop, "rolling-2")
        writing.set()
        thread.join()
        with shop.live.database.transaction() as connection:
            connection.execute(
                schema.workers.update()
                .where(schema.workers.c.worker_id == "rolling-1")
                .values(steady_since=sa.func.now() - timedelta(minutes=1))
            )
        wait_until(lambda: is_settled(shop, len(customers)), 60, "all to be settled")
        queued = "SELECT 1 FROM outbound_mails WHERE status = 'queued'"
        wait_until(lambda: not shop.rows(queued), 60, "every mail to be sent")
    finally:
        writing.set()
        for each in workers:
            each.kill()
    assert len(customers) > 2
    assert len(shop.rows("SELECT * FROM ledger_entries")) == len(customers)
    sent = [mail.custom_args["outbound_id"] for mail in shop.mailboxes.sent()]
    assert len(sent) == len(set(sent))
    written = {row.outbound_id: row.status for row in shop.rows("SELECT * FROM outbound_mails")}
    assert len(written) == 2 * len(customers)
    # With what a killed worker was just handing over nobody knows: events settle it, or people do.
    assert {each for each in written if each not in sent} <= {
        each for each, status in written.items() if status == "sending"
    }
    assert shop.live.workflow_client.runs.list_runs(status="ERROR") == []


def test_a_replay_made_elsewhere_outlives_the_workers_that_are_killed_at_it(shop: Harness) -> None:
    refused = model_says(401, "invalid_api_key")
    shop.faults.openai += [refused] * 1000
    first, second = worker(shop, "first"), worker(shop, "second")
    first.start_and_wait()
    shop.write("Which orders of mine do you have?")
    run_id = wait_for_run(shop, "conversation", "ERROR")
    first.kill()
    # It is forked while no worker lives, and the one that takes the fork dies of it.
    dbos(shop, "fork", run_id, "--step", "2")
    dies_of_it = worker(shop, "first", MAILAGENT_CRASH_AT="put_off:after")
    dies_of_it.start()
    wait_until(lambda: not dies_of_it.lives, 60, "the worker to be killed")
    second.start_and_wait()
    let_vanish(shop, "first")
    ended = "SELECT 1 FROM dbos.workflow_status WHERE forked_from = :run AND status = 'SUCCESS'"
    wait_until(lambda: bool(shop.rows(ended, run=run_id)), 60, "the fork to end")
    assert shop.live.workflow_client.runs.list_runs(status="ERROR") == []
    shop.faults.openai.clear()
    # By itself: the schedule's sweep wakes when the breaker's pause is over.
    shop.wait_for_mails(ADA, 1, 200)
    wait_until(shop.at_rest, 30, "all to be at rest")
    second.ask_to_end()
    second.wait(30)
    assert len(shop.mails_to(ADA)) == 1
