"""Replays of runs that ended: rewound in place, forked, twice. Paid once, written once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from dbos import DBOS, WorkflowHandle

from mailagent import services
from mailagent.engine import REFUNDS
from mailagent.engine.replay import ReplayRefused
from mailagent.workflows.steps.maintenance.unfinished import enqueue_refunds
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, big_order, order
from tests.harness import Harness, beside, wait_until
from tests.programs.replay_sweep.at_work import stories_at_work, sweep_at_work
from tests.programs.replay_sweep.points import Point
from tests.programs.replay_sweep.ways import Hands
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import facts, play_approved, runs_of, wait_for_quiet


def _fork(run_id: str, step: int) -> WorkflowHandle[str]:
    return beside(partial(DBOS.fork_workflow, run_id, step, queue_name=REFUNDS))


def play_small(shop: Harness) -> None:
    shop.stock(order())
    shop.write(KETTLE_WISH)
    shop.wait_for_refund("paid")
    shop.wait_for_mails(ADA, 2)
    wait_for_quiet(shop)


# One story on each database; all ways of both, on both, are `python -m tests.programs.replay_sweep`.
@pytest.mark.parametrize(
    ("play", "database_url"),
    [(play_small, "postgresql"), (play_approved, "sqlite")],
    indirect=["database_url"],
    ids=["small on postgresql", "approved on sqlite"],
)
def test_rewinding_to_every_step_changes_nothing(busy_shop: Harness, play: Any) -> None:
    play(busy_shop)
    before = facts(busy_shop)
    workflow_client = busy_shop.live.workflow_client
    for run_id in (*runs_of(busy_shop, "conversation"), *runs_of(busy_shop, "refund")):
        run = workflow_client.runs.find_run(run_id, with_steps=True)
        assert run is not None
        for step in reversed(run.steps):  # the last first: an early cut shortens the history
            workflow_client.replays.replay_run(run_id, step.number)
            wait_for_quiet(busy_shop)
            again = workflow_client.runs.find_run(run_id)
            assert again is not None
            assert again.status == "SUCCESS", (step, again.error)
            assert facts(busy_shop) == before, step


def test_a_fork_of_a_waiting_refund_pays_once_by_the_link_mailed_before(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    (run_id,) = runs_of(busy_shop, "refund")
    fork = _fork(run_id, 1)  # the original goes on waiting
    wait_until(
        lambda: busy_shop.rows("SELECT run_id FROM refunds")[0].run_id == fork.workflow_id,
        20,
        "the fork to look after the refund",
    )
    decide(busy_shop, link_in(request.text), "approve")
    assert beside(fork.get_result) == "paid"
    wait_for_quiet(busy_shop)  # the original has heard the wake-up, too, and has ended
    assert len(busy_shop.mails_to(MONA)) == 1
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2
    assert len(busy_shop.rows("SELECT * FROM ledger_entries")) == 1


def test_a_cancelled_run_is_replayed_and_the_old_link_still_works(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    (run_id,) = runs_of(busy_shop, "refund")
    busy_shop.live.workflow_client.replays.cancel_run(run_id)
    decide(busy_shop, link_in(request.text), "approve")  # that run is no more: a fresh one pays
    busy_shop.wait_for_refund("paid")
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2
    wait_for_quiet(busy_shop)
    before = facts(busy_shop)
    busy_shop.live.workflow_client.replays.replay_run(run_id)
    wait_for_quiet(busy_shop)
    assert facts(busy_shop) == before
    assert len(busy_shop.rows("SELECT * FROM ledger_entries")) == 1
    assert len(busy_shop.mails_to(MONA)) == 1


def test_a_run_at_work_is_not_replayed(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    busy_shop.wait_for_mails(MONA)
    (run_id,) = runs_of(busy_shop, "refund")
    with pytest.raises(ReplayRefused, match="flask runs cancel"):
        busy_shop.live.workflow_client.replays.replay_run(run_id)
    with pytest.raises(ReplayRefused, match="there is no run"):
        busy_shop.live.workflow_client.replays.replay_run("refund-x")


def test_a_step_that_a_run_does_not_have_is_refused(busy_shop: Harness) -> None:
    play_small(busy_shop)
    (run_id,) = runs_of(busy_shop, "refund")
    for step in (0, -1, 99):
        with pytest.raises(ReplayRefused, match="steps 1 to"):
            busy_shop.live.workflow_client.replays.replay_run(run_id, step)


# --- replays at work ------------------------------------------------------------------------------


# Where a run that is not alone could pay or write a second time.
SAMPLED = (
    "fork by DBOS, refund 1 from step 1, held at pay_refund intended",
    "fork by DBOS, refund 1 from step 1, held at pay_refund asked",
    "fork by DBOS, refund 1 from step 1, held at send_mail claimed",
)


def sampled(points: list[Point]) -> list[Point]:
    return [point for point in points if str(point).partition(": ")[2] in SAMPLED]


def test_a_replay_beside_the_original_pays_and_writes_once(database_url: str) -> None:
    results = sweep_at_work(stories_at_work()[0], database_url, sampled)
    assert {str(result.point): result.problem for result in results if result.problem} == {}
    assert [result.outcome for result in results] == ["held"] * len(SAMPLED)


def start_of_wait(shop: Harness, run_id: str) -> int:
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    return next(step.number for step in run.steps if step.name == "DBOS.recv")


def look_at_once(shop: Harness) -> None:
    """Let the sweep wake without waiting for a minute first."""
    waits = replace(shop.live.waits, sweep_after_seconds=0)
    services.bind(replace(shop.live, waits=waits))


def fork_elsewhere(run_id: str, step: int) -> str:
    """Fork a run as the DBOS console does: it sends no wake-up afterwards."""
    return str(beside(partial(DBOS.fork_workflow, run_id, step)).workflow_id)


def is_waiting(shop: Harness, run_id: str) -> bool:
    run = shop.live.workflow_client.runs.find_run(run_id)
    return run is not None and run.status == "PENDING"


def rewind_elsewhere(shop: Harness, run_id: str, step: int) -> str:
    hands = Hands.of(shop)
    hands.client.rewind_workflow(run_id, start_step=step)
    hands.client.destroy()
    return run_id


def test_a_replay_made_elsewhere_that_missed_its_wake_up_is_woken_once(busy_shop: Harness) -> None:
    play_approved(busy_shop)
    before = facts(busy_shop)
    look_at_once(busy_shop)
    (run_id,) = runs_of(busy_shop, "refund")
    wait = start_of_wait(busy_shop, run_id)
    for replay in (fork_elsewhere, partial(rewind_elsewhere, busy_shop)):
        again = replay(run_id, wait)
        wait_until(partial(is_waiting, busy_shop, again), 20, "the run to begin")
        wait_until(lambda: enqueue_refunds() == 1, 20, "the run to be woken")
        assert enqueue_refunds() == 0
        wait_for_quiet(busy_shop)
        assert facts(busy_shop) == before


def test_forks_that_wait_hear_of_the_decision_and_not_before(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    look_at_once(busy_shop)
    (run_id,) = runs_of(busy_shop, "refund")
    wait_until(busy_shop.at_rest, 20, "the answer to be sent")
    fork = fork_elsewhere(
        run_id, 5
    )  # after what it looked at first: it does not take the refund over
    wait_until(lambda: is_waiting(busy_shop, fork), 20, "the fork to begin")
    assert enqueue_refunds() == 0
    services.bind(busy_shop.live)  # from here the sweep is too late to help
    decide(busy_shop, link_in(request.text), "approve")
    wait_for_quiet(busy_shop)
    busy_shop.wait_for_refund("paid")
    assert len(busy_shop.rows("SELECT * FROM ledger_entries")) == 1
