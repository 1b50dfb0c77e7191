"""Replays made elsewhere: in the DBOS console, with the `dbos` command, by a program of one's own. What
`docs/operate.md` says of them, played with the real client of the console on both databases."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent import services
from mailagent.domain.operations.model_cost import DailyBudget
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.domain.operations.run_about import hash_customer
from mailagent.engine import CONVERSATION, CONVERSATIONS, REFUND
from mailagent.engine.run import Run, first_step_to_repeat
from mailagent.workflows.steps import operators
from mailagent.workflows.steps.maintenance import sweep, unfinished
from tests.cast import ADA, DESK_WISH, GRACE, MONA, OLGA, TESS, big_order
from tests.conductor import Console
from tests.dbos_command import dbos
from tests.harness import Harness, open_shop, running, wait_until
from tests.programs.stampede.story import QUESTION, AbsentOpenAI, Clock, at_work, open_busy_shop
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import by_our_command, in_the_console
from tests.workflows.trouble import failing, is_sqlite, once, table_of_runs, wait_for_run, watched


def wait_for(go_on: threading.Event) -> None:
    assert go_on.wait(60)


@dataclass
class Scene:
    """A shop at work that is connected to the console, and a model that can be away."""

    shop: Harness
    clock: Clock
    openai: AbsentOpenAI
    console: Console

    @property
    def client(self) -> DBOSClient:
        """The client of a program of one's own."""
        return DBOSClient(
            system_database_engine=self.shop.live.database.engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name="mailagent",
        )

    def failed(self) -> list[str]:
        return [run.run_id for run in self.shop.live.workflow_client.runs.list_runs(status="ERROR")]

    def fails_for_the_model(self) -> Run:
        """Let a mail come while the model refuses us, which opens its breaker; return the run that failed."""
        self.openai.goes_away(401, "invalid_api_key")
        self.shop.write(QUESTION)
        return self.find(wait_for_run(self.shop, CONVERSATION, "ERROR"))

    def find(self, run_id: str) -> Run:
        run = self.shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
        assert run is not None
        return run

    def is_quiet(self) -> bool:
        return not at_work(self.shop)

    def a_minute_passes(self) -> None:
        self.clock.put_forward(61)
        sweep.enqueue_mail()
        wait_until(self.is_quiet, 30, "every run to end")

    def places(self) -> list[tuple[str, str | None]]:
        """Return the queue and the partition of each conversation's run that has yet to end."""
        table, active = table_of_runs(self.shop), "status IN ('ENQUEUED', 'PENDING')"
        query = (
            f"SELECT queue_name, queue_partition_key FROM {table} WHERE name = :name AND {active}"
        )
        rows = self.shop.rows(query, name=CONVERSATION)
        return [(row.queue_name, row.queue_partition_key) for row in rows]


@pytest.fixture
def scene(tmp_path: Path, database_url: str) -> Iterator[Scene]:
    openai = AbsentOpenAI()
    openai.start()
    with (
        Console() as console,
        open_busy_shop(tmp_path, database_url, openai, 4, console.settings) as (shop, clock),
    ):
        yield Scene(shop, clock, openai, console)
    openai.stop()


# --- the ways to replay a failed run --------------------------------------------------------------


def resume_then_fork(scene: Scene, run: Run) -> None:
    scene.console.resume(run.run_id)  # answers that it was done, and does nothing
    assert scene.failed() == [run.run_id]
    scene.console.fork(run.run_id, 1)


def dbos_fork(scene: Scene, run: Run) -> None:
    step = str(first_step_to_repeat(run))
    dbos(scene.shop, "fork", run.run_id, "--step", step, "--application-version", "1")


WAYS: dict[str, Callable[[Scene, Run], object]] = {
    "dbos workflow fork": dbos_fork,
    "fork in the console": lambda scene, run: scene.console.fork(
        run.run_id, first_step_to_repeat(run)
    ),
    "fork from failure in the console": lambda scene, run: scene.console.fork_from_failure(
        run.run_id
    ),
    "rewind in the console": lambda scene, run: scene.console.rewind(
        run.run_id, first_step_to_repeat(run)
    ),
    "fork by a program": lambda scene, run: scene.client.fork_workflow(
        run.run_id, first_step_to_repeat(run)
    ),
    "resume, then fork": resume_then_fork,
    "flask runs replay": lambda scene, run: by_our_command(scene.shop, run.run_id),
    "fork at /ops": lambda scene, run: in_the_console(scene.shop, run.run_id, "fork"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_replay_while_the_model_is_away_is_answered_when_it_is_back(
    scene: Scene, way: str
) -> None:
    shop, run = scene.shop, scene.fails_for_the_model()
    WAYS[way](scene, run)
    wait_until(scene.is_quiet, 30, "the replay to end")
    assert scene.failed() == []  # there is nothing left that a person has to do
    scene.a_minute_passes()
    scene.a_minute_passes()
    assert (shop.mails_to(ADA), shop.mails_to(TESS), scene.failed()) == ([], [], [])
    scene.openai.comes_back()
    scene.a_minute_passes()
    shop.wait_for_mails(ADA)
    scene.a_minute_passes()
    assert len(shop.mails_to(ADA)) == 1
    wait_until(shop.at_rest, 20, "the last mail to be recorded as sent")


@contextmanager
def held_up(scene: Scene, by: str) -> Iterator[None]:
    """Keep mail from being begun, for another reason than a model that refuses us."""
    live = services.current()
    match by:
        case "budget":
            services.bind(replace(live, daily_budget=DailyBudget(Decimal(0))))
        case "limits":
            services.bind(replace(live, rate_limit=RateLimit(requests=1)))
        case _:
            scene.openai.goes_away()
    if by == "limits":
        scene.shop.write("Hello?", from_address=GRACE)  # has the only call of this minute
        scene.shop.wait_for_mails(GRACE)
    try:
        yield
    finally:
        scene.openai.comes_back()
        services.bind(live)


# --- lists ----------------------------------------------------------------------------------------


def inbox(shop: Harness) -> str:
    return shop.log_in(OLGA).get("/ops?waiting=failed").text


def test_a_failed_run_that_was_forked_elsewhere_leaves_every_list_of_what_is_to_be_done(
    scene: Scene,
) -> None:
    shop, run = scene.shop, scene.fails_for_the_model()
    assert run.run_id in inbox(shop)
    fork = scene.console.fork(run.run_id, 1)
    wait_until(scene.is_quiet, 30, "the fork to end")
    assert scene.failed() == []
    assert run.run_id not in inbox(shop)
    assert run.run_id not in shop.log_in(OLGA).get("/ops/runs?status=failed").text
    assert operators.report_failed_runs() == 0
    assert "its run failed" not in shop.log_in(OLGA).get("/ops?waiting=unanswered").text
    shown = scene.console.show(run.run_id)
    assert (shown["Status"], shown["WasForkedFrom"]) == ("ERROR", True)
    assert scene.console.show(fork)["ForkedFrom"] == run.run_id


def test_a_failed_run_whose_work_a_later_run_has_done_leaves_the_lists(scene: Scene) -> None:
    shop = scene.shop
    with failing("ask_model"):
        mail = shop.write(QUESTION)
        run_id = wait_for_run(shop, CONVERSATION, "ERROR")
    assert scene.failed() == [run_id]
    shop.write("Hello? Did you get my mail?", in_reply_to=mail.message_id)
    shop.wait_for_mails(ADA)
    wait_until(scene.is_quiet, 30, "the later run to end")
    assert scene.failed() == []
    assert run_id not in inbox(shop)
    assert operators.report_failed_runs() == 0


def test_a_fork_that_fails_is_the_one_to_show(scene: Scene) -> None:
    shop = scene.shop
    with failing("ask_model"):
        shop.write(QUESTION)
        run_id = wait_for_run(shop, CONVERSATION, "ERROR")
        fork = scene.console.fork(run_id, 1)
        wait_until(scene.is_quiet, 30, "the fork to end")
    assert scene.failed() == [fork]
    assert operators.report_failed_runs() == 1
    (notice,) = shop.rows("SELECT subject FROM outbound_mails WHERE purpose = 'notice'")
    assert notice.subject == f"Run {fork} has failed"
    scene.clock.put_forward(120)
    assert sweep.enqueue_mail() == 0  # a person has to look
    scene.console.fork(fork, 1)
    shop.wait_for_mails(ADA)
    assert scene.failed() == []


def test_a_run_that_fails_after_it_was_forked_is_shown(scene: Scene) -> None:
    shop, go_on = scene.shop, threading.Event()

    def stand_still_and_fail() -> None:
        go_on.wait(30)
        raise RuntimeError("a mistake")

    with watched("ask_model before", stand_still_and_fail):
        shop.write(QUESTION)
        run_id = wait_for_run(shop, CONVERSATION, "PENDING")
        wait_until(lambda: bool(scene.find(run_id).steps), 20, "the first step to be recorded")
        fork = scene.client.fork_workflow(run_id, 1).workflow_id
        time.sleep(1.1)  # on SQLite DBOS's times are whole seconds
        go_on.set()
        wait_until(scene.is_quiet, 30, "both to end")
    assert sorted(scene.failed()) == sorted([run_id, fork])


def test_a_fork_that_sees_to_other_mail_first_leaves_none_behind(scene: Scene) -> None:
    shop = scene.shop
    with failing("ask_model"):
        first = shop.write(QUESTION)
        wait_for_run(shop, CONVERSATION, "ERROR")
        shop.write(QUESTION, aligned=False, in_reply_to=first.message_id)
        wait_until(lambda: len(scene.failed()) == 2, 30, "the run of the second mail to fail")
    assert len(shop.rows("SELECT 1 FROM conversations")) == 1
    scene.console.fork(scene.failed()[0], 1)  # of the second: it answers the first, by itself
    wait_until(scene.is_quiet, 30, "the fork to end")
    assert unanswered(shop) == 1
    scene.a_minute_passes()
    assert unanswered(shop) == 0
    assert len(shop.wait_for_mails(ADA, 2)) == 2


def unanswered(shop: Harness) -> int:
    return len(shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"))


def test_an_original_whose_fork_was_deleted_is_shown_again(scene: Scene) -> None:
    run = scene.fails_for_the_model()
    fork = scene.console.fork(run.run_id, 1)
    wait_until(scene.is_quiet, 30, "the fork to end")
    assert scene.failed() == []
    scene.client.delete_workflow(fork)
    assert scene.failed() == [run.run_id]


def test_the_sweep_leaves_a_refund_to_the_fork_of_its_run(scene: Scene) -> None:
    shop = scene.shop
    shop.stock(big_order())
    with failing("look_at_decision"):
        shop.write(DESK_WISH)
        shop.wait_for_mails(MONA)
        (refund,) = shop.rows("SELECT refund_id, run_id FROM refunds")
        with shop.live.database.transaction() as connection:
            shop.live.workflow_client.queue.enqueue_refund(
                connection, refund.refund_id, refund.run_id
            )
        run = scene.find(wait_for_run(shop, REFUND, "ERROR"))
    fork = scene.console.fork(run.run_id, first_step_to_repeat(run))
    wait_until(lambda: scene.find(fork).status == "PENDING", 20, "the fork to wait")
    scene.clock.put_forward(600)  # the pause after a run of a refund that failed is five minutes
    unfinished.enqueue_refunds()
    runs = [
        each.run_id
        for each in shop.live.workflow_client.runs.list_runs()
        if each.workflow == REFUND
    ]
    assert sorted(runs) == sorted([run.run_id, fork])
    scene.clock.ahead *= 0
    (request,) = shop.mails_to(MONA)
    decide(shop, link_in(request.text), "approve")
    shop.wait_for_refund("paid")
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1


# --- queues ---------------------------------------------------------------------------------------


def _resume_in_console(scene: Scene, run_id: str) -> None:
    scene.console.cancel(run_id)
    scene.console.resume(run_id)


def _fork_in_console(scene: Scene, run_id: str) -> None:
    scene.client.cancel_workflow(run_id)
    scene.console.fork(run_id, 1)


def _rewind_by_client(scene: Scene, run_id: str) -> None:
    scene.client.cancel_workflow(run_id)
    scene.client.rewind_workflow(run_id)


@pytest.mark.parametrize(
    "again",
    [_resume_in_console, _fork_in_console, _rewind_by_client],
)  # fmt: skip
def test_a_run_that_is_taken_up_again_elsewhere_waits_for_its_turn(
    scene: Scene, again: Callable[[Scene, str], None]
) -> None:
    shop, go_on = scene.shop, threading.Event()
    with watched("ask_model before", partial(wait_for, go_on)):
        shop.write(QUESTION)
        first = wait_for_run(shop, CONVERSATION, "PENDING")
        shop.write(QUESTION)
        second = wait_for_run(shop, CONVERSATION, "ENQUEUED")
        again(scene, second)
        assert scene.places() == [(CONVERSATIONS, hash_customer(ADA))] * 2
        # Longer than DBOS's own queue would need to begin it.
        time.sleep(1.5)
        assert [run.run_id for run in shop.live.workflow_client.runs.list_runs("PENDING")] == [
            first
        ]
        go_on.set()
        wait_until(scene.is_quiet, 30, "both to end")
    shop.wait_for_mails(ADA, 2)
    wait_until(shop.at_rest, 20, "the last mail to be recorded as sent")
    assert len(shop.mails_to(ADA)) == 2  # one for each of hers


def test_a_fork_beside_the_original_waits_until_that_has_ended(scene: Scene) -> None:
    shop, go_on = scene.shop, threading.Event()
    with watched("ask_model before", partial(wait_for, go_on)):
        shop.write(QUESTION)
        run_id = wait_for_run(shop, CONVERSATION, "PENDING")
        fork = scene.console.fork(run_id, 1)
        time.sleep(1.5)
        assert scene.find(fork).status == "ENQUEUED"
        scene.clock.put_forward(120)
        assert sweep.enqueue_mail() == 0
        go_on.set()
        wait_until(scene.is_quiet, 30, "both to end")
    assert scene.find(fork).output == "nothing to answer"
    assert len(shop.wait_for_mails(ADA)) == 1


# --- attributes and names -------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["model", "budget", "limits"])
def test_what_holds_a_run_up_is_among_its_attributes(scene: Scene, by: str) -> None:
    shop = scene.shop
    with failing("ask_model"):
        shop.write(QUESTION)
        run_id = wait_for_run(shop, CONVERSATION, "ERROR")
    with held_up(scene, by):
        fork = scene.console.fork(run_id, 1)
        if by == "model":
            wait_until(lambda: len(found(scene, by)) == 1, 30, "the fork to wait for the model")
        else:
            wait_until(scene.is_quiet, 30, "the fork to be put off")
            assert scene.find(fork).output == "put off"
        (shown,) = found(scene, by)
        assert shown["WorkflowUUID"] == fork
        assert hash_customer(ADA) in shown["Attributes"]
    wait_until(scene.is_quiet, 60, "the fork to end")
    scene.a_minute_passes()
    shop.wait_for_mails(ADA)
    assert len(shop.mails_to(ADA)) == 1


def found(scene: Scene, held_up_by: str) -> list[dict[str, Any]]:
    return find_by(scene, {"held_up_by": held_up_by})


def find_by(scene: Scene, attribute: dict[str, str]) -> list[dict[str, Any]]:
    """Find runs in the console by an attribute; on SQLite, where DBOS has no such filter, by looking."""
    if not is_sqlite(scene.shop):
        return scene.console.list_runs(attributes=attribute)
    ((name, value),) = attribute.items()
    runs = scene.console.list_runs()
    return [run for run in runs if json.loads(run["Attributes"] or "{}").get(name) == value]


def test_an_outage_of_the_model_is_seen_in_the_console(scene: Scene) -> None:
    scene.openai.goes_away()
    for customer in (ADA, GRACE):
        scene.shop.write(QUESTION, from_address=customer)
    wait_until(lambda: len(found(scene, "model")) == 2, 60, "both to be held up")
    wait_until(scene.is_quiet, 60, "both to be put off")
    assert {run["Status"] for run in found(scene, "model")} == {"SUCCESS"}


def test_the_console_knows_a_worker_by_its_name(scene: Scene) -> None:
    wait_until(lambda: bool(scene.console.executors()), 20, "the worker to connect")
    (executor,) = scene.console.executors()
    assert executor["executor_id"] == "test"
    assert executor["executor_metadata"] == {"worker_id": "test"}
    scene.shop.write(QUESTION)
    scene.shop.wait_for_mails(ADA)
    wait_until(scene.is_quiet, 20, "the run to end")
    (run,) = scene.console.list_runs(workflow_name=CONVERSATION)
    assert run["ExecutorID"] == "test"
    assert [row.worker_id for row in scene.shop.rows("SELECT worker_id FROM workers")] == ["test"]


@pytest.mark.parametrize("metadata_only", ["no", "yes"])
def test_the_console_gets_records_unless_told_otherwise(
    tmp_path: Path, database_url: str, metadata_only: str
) -> None:
    with Console() as console:
        settings = {**console.settings, "DBOS_CONDUCTOR_METADATA_ONLY": metadata_only}
        with open_shop(tmp_path, database_url, settings) as shop, running(shop):
            shop.write(QUESTION)
            shop.wait_for_mails(ADA)
            wait_until(lambda: bool(console.executors()), 20, "the worker to connect")
            (run,) = console.list_runs(workflow_name=CONVERSATION)
            shown = console.show(run["WorkflowUUID"])
    assert (shown.get("Input") is None) is (metadata_only == "yes")


def test_a_worker_that_is_believed_dead_and_lives_answers_once(scene: Scene) -> None:
    shop, go_on = scene.shop, threading.Event()
    with watched("ask_model before", once(partial(wait_for, go_on))):
        shop.write(QUESTION)
        wait_for_run(shop, CONVERSATION, "PENDING")
        wait_until(
            lambda: bool(shop.live.workflow_client.runs.list_runs("PENDING")),
            20,
            "the run to begin",
        )
        # The console asks again while nothing comes of it.
        for _ in range(4):
            scene.console.recover("test")
            with suppress(AssertionError):
                shop.wait_for_mails(ADA, seconds=20)
                break
        shop.wait_for_mails(ADA)  # by who took it then
        go_on.set()
        wait_until(scene.is_quiet, 30, "the run to end")
    time.sleep(1)
    assert len(shop.mails_to(ADA)) == 1
    assert scene.failed() == []


# --- what docs/operate.md says ---------------------------------------------------------------------


def test_a_failed_run_is_found_and_repeated_as_the_guide_says(scene: Scene) -> None:
    shop, run = scene.shop, scene.fails_for_the_model()
    (shown,) = scene.console.list_runs(status="ERROR")
    assert shown["WorkflowUUID"] == run.run_id == f"conversation-{mail_id(shop)}"
    for attribute in (
        {"customer_hash": hash_customer(ADA)},
        {"subject": run.subject},
        {"held_up_by": "model"},
    ):
        assert [each["WorkflowUUID"] for each in find_by(scene, attribute)] == [run.run_id]
    listed = dbos(
        shop, "list", "--status", "ERROR", "--application-name", "mailagent", "--limit", "50"
    )
    assert [each["workflow_id"] for each in listed] == [run.run_id]
    assert dbos(shop, "get", run.run_id)["attributes"]["conversation"] == run.subject
    steps = dbos(shop, "steps", run.run_id)
    assert [step["function_id"] for step in steps if step["error"]] == [first_step_to_repeat(run)]
    assert [step["function_name"] for step in scene.console.steps(run.run_id)] == [
        step["function_name"] for step in steps
    ]
    scene.openai.comes_back()
    scene.console.fork(run.run_id, first_step_to_repeat(run), version="1")
    wait_until(scene.is_quiet, 30, "the fork to end")
    scene.a_minute_passes()
    assert len(shop.wait_for_mails(ADA)) == 1


def mail_id(shop: Harness) -> str:
    (mail,) = shop.rows("SELECT mail_id FROM inbound_mails")
    return str(mail.mail_id).partition("_")[2]
