"""What docs/console.md says, checked by the calls that the console makes and by those of `DBOSClient`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent import services
from mailagent.domain.operations.replay import EFFECTS
from mailagent.domain.operations.run_about import hash_customer
from mailagent.engine import CONVERSATION, CONVERSATIONS, QUEUE_OF, REFUND, SCHEDULED
from mailagent.workflows.steps.maintenance import unfinished
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, big_order, order
from tests.conductor import Console
from tests.databases import ROOT
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet
from tests.workflows.trouble import (
    later,
    once,
    wait_for_a_refund_that_waits,
    wait_for_run,
    watched,
)

GUIDE = (ROOT / "docs" / "console.md").read_text("utf-8")
pytestmark = pytest.mark.both_databases


@pytest.fixture
def console() -> Iterator[Console]:
    with Console() as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path, database_url: str, console: Console) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, console.settings) as opened, running(opened):
        opened.stock(order(), big_order())
        yield opened


def client_of(shop: Harness) -> DBOSClient:
    return DBOSClient(
        system_database_engine=shop.live.database.engine,
        serializer=DBOSPortableJSONSerializer(),
        application_name="mailagent",
    )


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the guide."""
    part = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- names ----------------------------------------------------------------------------------------


def test_runs_and_steps_are_named_as_the_guide_names_them(shop: Harness) -> None:
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    decide(shop, link_in(request.text), "approve")
    shop.wait_for_mails(ADA, 2)
    wait_for_quiet(shop)
    named = {name: row for row in rows_of("Which run is what") for name in names_in(row[0])}
    steps = steps_of_workflows()
    client, (refund,) = client_of(shop), shop.refunds()
    runs = {run.name: run for run in client.list_workflows()}
    assert {REFUND, CONVERSATION} <= runs.keys()
    for name, run in runs.items():
        _, _, ids, queue, *_ = named[name]
        assert str(run.queue_name) in queue
        assert run.workflow_id.startswith(names_in(ids)[0].rstrip("…"))
        done = {step["function_name"] for step in client.list_workflow_steps(run.workflow_id)}
        assert done <= steps[name], "docs/console.md leaves a step out"
    assert runs[REFUND].workflow_id == refund.refund_id.replace("_", "-")
    assert runs[REFUND].attributes == {
        "conversation": refund.conversation_id,
        "order": refund.order_id,
        "refund": refund.refund_id,
        "subject": refund.refund_id,
        "customer_hash": hash_customer(ADA),
    }
    assert runs[CONVERSATION].queue_name == CONVERSATIONS
    assert runs[CONVERSATION].queue_partition_key == hash_customer(ADA)


def steps_of_workflows() -> dict[str, set[str]]:
    """Return the steps that the guide names, by workflow. A row without a workflow goes on with the last."""
    steps: dict[str, set[str]] = {}
    workflows: list[str] = []
    for first, names, _ in (["", *row][-3:] for row in rows_of("Its steps")):
        of_all = [*QUEUE_OF] if first == "all three" else names_in(first)
        workflows = of_all or workflows
        for each in workflows:
            steps.setdefault(each, set()).update(names_in(names))
    return steps


def test_the_guide_names_every_workflow_every_step_and_no_other() -> None:
    workflows = [name for row in rows_of("Which run is what") for name in names_in(row[0])]
    assert sorted(workflows) == sorted([*QUEUE_OF, *SCHEDULED])
    steps = steps_of_workflows()
    assert steps.keys() == {*workflows}
    assert set().union(*steps.values()) == EFFECTS.keys()
    attributes = set(names_in(GUIDE.partition("**Attributes**")[2].partition("```")[0]))
    assert {
        "conversation",
        "order",
        "refund",
        "subject",
        "held_up_by",
        "customer_hash",
    } <= attributes


# --- errors ---------------------------------------------------------------------------------------


@contextmanager
def a_bug(step: str) -> Iterator[None]:
    def look_up() -> None:
        {"D1": 1}["D2"]

    with watched(f"{step} before", look_up):
        yield


@pytest.mark.parametrize(
    ("workflow", "step"), [(CONVERSATION, "write_reply"), (REFUND, "claim_refund")]
)
def test_a_bug_is_seen_by_its_name_at_its_step(
    shop: Harness, console: Console, workflow: str, step: str
) -> None:
    with a_bug(step):
        shop.write(DESK_WISH)
        run_id = wait_for_run(shop, workflow, "ERROR")
    client = client_of(shop)
    (listed,) = client.list_workflows(status="ERROR", name=workflow)
    assert (listed.workflow_id, listed.error is not None) == (run_id, True)
    assert str(listed.error).startswith("KeyError in mailagent.")
    (failed,) = [each for each in client.list_workflow_steps(run_id) if each["error"]]
    assert failed["function_name"] == step
    (shown,) = console.list_runs(status="ERROR", workflow_name=workflow)
    assert shown["WorkflowUUID"] == run_id
    assert console.show(run_id)["Error"].startswith("KeyError in mailagent.")
    (seen,) = [each for each in console.steps(run_id) if each["error"]]
    assert (seen["function_name"], seen["error"]) == (step, str(failed["error"]))


# --- buttons --------------------------------------------------------------------------------------


def press_cancel_and_resume(shop: Harness, console: Console, run_id: str) -> str:
    console.cancel(run_id)
    wait_for_run(shop, REFUND, "CANCELLED")
    console.resume(run_id)
    return run_id


def press_cancel_and_fork(shop: Harness, console: Console, run_id: str) -> str:
    console.cancel(run_id)
    wait_for_run(shop, REFUND, "CANCELLED")
    return console.fork(run_id, 1)


def press_cancel_and_rewind(shop: Harness, console: Console, run_id: str) -> str:
    console.cancel(run_id)
    wait_for_run(shop, REFUND, "CANCELLED")
    console.rewind(run_id, 1)
    return run_id


def client_cancels_and_forks(shop: Harness, _console: Console, run_id: str) -> str:
    client = client_of(shop)
    client.cancel_workflow(run_id)
    return client.fork_workflow(run_id, 2).workflow_id


def client_cancels_and_resumes(shop: Harness, _console: Console, run_id: str) -> str:
    client = client_of(shop)
    client.cancel_workflow(run_id)
    client.resume_workflow(run_id)
    return run_id


@pytest.mark.parametrize(
    "press",
    [
        press_cancel_and_resume,
        press_cancel_and_fork,
        press_cancel_and_rewind,
        client_cancels_and_forks,
        client_cancels_and_resumes,
    ],
)
def test_a_refund_that_waits_is_paid_once_after_each_button(
    shop: Harness, console: Console, press: Callable[[Harness, Console, str], str]
) -> None:
    run_id = wait_for_a_refund_that_waits(shop)
    again = press(shop, console, run_id)
    client = client_of(shop)

    def waits() -> bool:
        found = client.list_workflows(workflow_ids=[again])
        return [(each.status, each.queue_name) for each in found] == [("PENDING", "refunds")]

    wait_until(waits, 20, "the run to wait again, in its own queue")
    (request,) = shop.mails_to(MONA)
    decide(shop, link_in(request.text), "approve")
    shop.wait_for_refund("paid")
    wait_for_quiet(shop)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert len(shop.mails_to(MONA)) == 1
    assert len(shop.wait_for_mails(ADA, 2)) == 2
    assert (again != run_id) == bool(console.show(run_id)["WasForkedFrom"])


def test_resume_does_nothing_to_a_failed_run_and_fork_from_failure_does(
    shop: Harness, console: Console
) -> None:
    with a_bug("claim_refund"):
        shop.write(DESK_WISH)
        run_id = wait_for_run(shop, REFUND, "ERROR")
    console.resume(run_id)
    client_of(shop).resume_workflow(run_id)
    assert console.show(run_id)["Status"] == "ERROR"
    (fork,) = console.fork_from_failure(run_id)
    shop.wait_for_mails(MONA)
    shown = console.show(run_id)
    assert (shown["Status"], shown["WasForkedFrom"]) == ("ERROR", True)
    assert console.show(fork)["ForkedFrom"] == run_id


def test_delete_after_cancel_pays_a_refund_once(shop: Harness, console: Console) -> None:
    def cancel() -> None:
        runs = shop.live.workflow_client.runs.list_runs("PENDING")
        (run_id,) = [run.run_id for run in runs if run.workflow == REFUND]
        console.cancel(run_id)

    with watched("claim_refund before", once(cancel)):
        shop.write(KETTLE_WISH)
        run_id = wait_for_run(shop, REFUND, "CANCELLED")
    wait_for_quiet(shop)
    later(shop, minutes=2)
    assert unfinished.enqueue_refunds() == 0
    assert shop.refunds()[0].status == "approved"
    console.delete(run_id)
    assert unfinished.enqueue_refunds() == 1
    services.bind(shop.live)
    shop.wait_for_refund("paid")
    wait_for_quiet(shop)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
