"""Replays while the original still runs, and wake-ups that a replay made elsewhere has missed.

A sample: `python -m tests.programs.replay_sweep` tries every step, in every way, on both databases.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dbos import DBOS

from mailagent import services
from mailagent.workflows.steps.maintenance.unfinished import enqueue_refunds
from tests.cast import MONA, big_order
from tests.harness import Harness, beside, wait_until
from tests.programs.replay_sweep.at_work import stories_at_work, sweep_at_work
from tests.programs.replay_sweep.points import Point
from tests.programs.replay_sweep.ways import Hands
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import facts, play_approved, runs_of, wait_for_quiet

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


def test_a_replay_made_elsewhere_that_missed_its_bell_is_rung_once(busy_shop: Harness) -> None:
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
    busy_shop.write("The standing desk of order W2001 is damaged, please refund it.")
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
