"""The database is in trouble while runs are at work: they go on when it is back, and nothing is done twice."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.http_server import Answer
from mailagent.store.operations import metric_figures
from mailagent.workflows.steps.conversation import model_call
from tests.cast import ADA, KETTLE_WISH, order
from tests.harness import Harness, running, wait_until
from tests.workflows.trouble import (
    cut_connections,
    failing,
    is_sqlite,
    locked_file,
    lose_patience,
    once,
    wait_for_run,
    watched,
)

pytestmark = pytest.mark.both_databases


def is_done(shop: Harness) -> bool:
    """Whether all is paid and told; the trouble may hit whoever looks, too."""
    try:
        paid = [refund.status for refund in shop.refunds()] == ["paid"]
        return paid and len(shop.mails_to(ADA)) >= 2 and shop.at_rest()
    except sa.exc.OperationalError:
        return False


def play(shop: Harness) -> None:
    """Let a small refund go from mail to receipt, and see that all happened once."""
    shop.stock(order())
    shop.write(KETTLE_WISH)
    wait_until(lambda: is_done(shop), 60, "the refund to be paid and told")
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
    assert len(shop.mails_to(ADA)) == 2
    assert shop.live.workflow_client.runs.list_runs(status="ERROR") == []


POINTS = (
    "ask_model after", "write_reply after", "send_mail claimed", "send_mail submitted",
    "pay_refund intended", "pay_refund asked", "tell_customer after",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_connections_cut_at_any_point_cost_nothing(shop: Harness, point: str) -> None:
    if is_sqlite(shop):
        pytest.skip("SQLite has no connections that somebody else could cut")
    with watched(point, once(lambda: wait_until_cut(shop))), running(shop):
        play(shop)


def wait_until_cut(shop: Harness) -> None:
    wait_until(lambda: cut_connections(shop) > 0, 10, "a connection to cut")


@pytest.mark.parametrize(
    ("step", "blocked"),
    [
        ("take_batch", "LOCK TABLE conversations"),
        ("write_reply", "LOCK TABLE outbound_mails"),
        ("pay_refund", "LOCK TABLE orders"),
        ("tell_customer", "LOCK TABLE outbound_mails"),
    ],
)
def test_a_connection_lost_within_a_transaction_costs_one_more_try(
    shop: Harness, step: str, blocked: str
) -> None:
    if is_sqlite(shop):
        pytest.skip("SQLite has no connections that somebody else could cut")
    reached, cut = threading.Event(), threading.Event()

    def wait_for_the_lock() -> None:
        reached.set()
        cut.wait(20)

    def cut_the_one_that_waits() -> None:
        assert reached.wait(30)
        with shop.live.database.transaction() as connection:
            connection.execute(sa.text(blocked))
            cut.set()
            waits = "wait_event_type = 'Lock' AND application_name = 'mailagent'"

            def tries_again() -> bool:
                cut_connections(shop, waits)  # others that wait for this lock are cut off, too
                return seen[f"{step} before"] > 1

            wait_until(tries_again, 20, "the step to be tried again")

    with watched(f"{step} before", once(wait_for_the_lock)) as seen:
        thread = threading.Thread(target=cut_the_one_that_waits)
        thread.start()
        with running(shop):
            play(shop)
        thread.join()
    assert seen[f"{step} before"] > seen[f"{step} after"]


@pytest.mark.parametrize(
    "step", ["claim_refund", "write_reply", "pay_refund", "tell_customer", "send_mail"]
)
def test_a_locked_file_costs_one_more_try(shop: Harness, step: str) -> None:
    if not is_sqlite(shop):
        pytest.skip("PostgreSQL has no file to lock")
    lose_patience(shop)
    held = threading.Event()

    def hold() -> None:
        with locked_file(shop):
            held.set()
            time.sleep(0.4)

    def lock() -> None:
        threading.Thread(target=hold).start()
        assert held.wait(30)

    with watched(f"{step} before", once(lock)) as seen, running(shop):
        play(shop)
    assert seen[f"{step} before"] > seen[f"{step} after"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_answer_that_could_not_be_recorded_is_not_asked_for_again(
    shop: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    lose_patience(shop)
    held = threading.Event()

    def hold() -> None:
        with locked_file(shop):
            held.set()
            time.sleep(0.4)

    holder = threading.Thread(target=hold)

    def answer_while_locked() -> Answer:
        holder.start()
        assert held.wait(30)
        return Answer(400, {"error": {"message": "no", "code": "invalid_prompt"}})

    shop.faults.openai.append(answer_while_locked)
    shop.write("Hello")
    with running(shop):
        dealt_with = "SELECT 1 FROM inbound_mails WHERE status <> 'unanswered'"
        wait_until(lambda: bool(shop.rows(dealt_with)), 30, "the mail to be dealt with")
    assert "cannot record" in caplog.text
    # Asked again the model would have answered, and well.
    (call,) = shop.rows("SELECT outcome FROM model_calls")
    assert call.outcome == "person"


def test_a_call_whose_commit_nobody_acknowledged_is_counted_once(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, lost = model_call._record_answer, sa.exc.OperationalError("", None, Exception("cut"))
    lost.connection_invalidated = True

    def lose_the_acknowledgement() -> None:
        raise lost

    lose_once = once(lose_the_acknowledgement)

    def record_and_hear_nothing(*arguments: Any) -> Any:
        recorded = record(*arguments)
        lose_once()
        return recorded

    monkeypatch.setattr(model_call, "_record_answer", record_and_hear_nothing)
    shop.faults.openai.append(lambda: Answer(503, {"error": {"message": "overloaded"}}))
    shop.write("Hello")
    with running(shop):
        wait_until(lambda: len(shop.mails_to(ADA)) > 0, 60, "an answer")
    calls = [row.outcome for row in shop.rows("SELECT outcome FROM model_calls ORDER BY at")]
    assert calls.count("retry") == 1
    with shop.live.database.snapshot() as connection:
        assert metric_figures.list_failures(connection) == {"openai": 1}


def test_what_was_done_is_recorded_when_the_database_is_back(shop: Harness) -> None:
    if is_sqlite(shop):
        pytest.skip("SQLite has no connections that somebody else could cut")
    # The gateway was asked and the row says so; only DBOS's record of the step is still to be written.
    with watched("pay_refund after", once(lambda: wait_until_cut(shop))) as seen, running(shop):
        play(shop)
    assert seen["pay_refund before"] == 1
    assert seen["pay_refund recorded"] == 1


def test_a_server_that_restarts_costs_nothing(own_server: Harness) -> None:
    server = own_server.app.config["SERVER"]

    def restart() -> None:
        server.stop()
        time.sleep(1)
        server.start()

    with watched("pay_refund asked", once(restart)), running(own_server):
        play(own_server)


def test_a_mistake_in_code_fails_at_once(shop: Harness) -> None:
    shop.stock(order())
    with failing("pay_refund") as seen, running(shop):
        shop.write(KETTLE_WISH)
        wait_for_run(shop, "refund", "ERROR")
    assert seen["pay_refund before"] == 1
