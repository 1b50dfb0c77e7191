"""Words stand in rows of their own, which forks and replays find, and which go when they are to go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from dbos import DBOS

from mailagent import services
from mailagent.demo.scripted_model import Phrase
from mailagent.store import schema
from mailagent.workflows.steps.maintenance import housekeeping
from tests.cast import ADA, order
from tests.harness import Harness, beside, running, wait_until
from tests.programs.replay_sweep.ways import Hands
from tests.round_trips.replays import wait_for_quiet
from tests.tool_calls import calls, says
from tests.workflows.trouble import failing, wait_for_run

pytestmark = pytest.mark.both_databases

ANSWER = "I am happy to help."


def words(shop: Harness) -> dict[str, str]:
    """Return the words of all steps by their ids."""
    rows = shop.rows("SELECT text_id, words FROM step_texts")
    return {row.text_id: str(row.words) for row in rows}


def requests(shop: Harness) -> int:
    return len(shop.rows("SELECT 1 FROM model_calls"))


def fail_before_the_answer(shop: Harness) -> str:
    """Let a run end when the model has answered, and nobody has written that down; return the run."""
    shop.stock(order())
    shop.faults.openai += [calls("look_at_order", order_id="W1001"), says(Phrase("happy_to_help"))]
    with failing("write_reply"):
        shop.write("Where is my order W1001?")
        return wait_for_run(shop, "conversation", "ERROR")


def step_of(shop: Harness, run_id: str, name: str) -> int:
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    return next(step.number for step in run.steps if step.name == name)


def fork(_shop: Harness, run_id: str, step: int) -> None:
    beside(partial(DBOS.fork_workflow, run_id, step))


def rewind(shop: Harness, run_id: str, step: int) -> None:
    hands = Hands.of(shop)
    hands.client.rewind_workflow(run_id, start_step=step)
    hands.client.destroy()


@pytest.mark.parametrize("replay", [fork, rewind])
def test_a_replay_made_elsewhere_writes_the_answer_that_was_given(
    busy_shop: Harness, replay: Callable[[Harness, str, int], None]
) -> None:
    run_id = fail_before_the_answer(busy_shop)
    before, asked = words(busy_shop), requests(busy_shop)
    replay(busy_shop, run_id, step_of(busy_shop, run_id, "write_reply"))
    assert ANSWER in busy_shop.wait_for_mails(ADA)[0].text
    wait_for_quiet(busy_shop)
    assert (words(busy_shop), requests(busy_shop)) == (before, asked)


def test_two_replays_that_ask_again_leave_each_others_words_alone(busy_shop: Harness) -> None:
    run_id = fail_before_the_answer(busy_shop)
    before = words(busy_shop)
    asked = step_of(busy_shop, run_id, "ask_model")
    with failing("write_reply"):
        for number, replay in enumerate((fork, rewind), start=1):
            busy_shop.faults.openai.append(says(*[Phrase("welcome")] * number))
            replay(busy_shop, run_id, asked)
            wait_until(lambda: len(words(busy_shop)) == len(before) + number, 30, "its words")  # noqa: B023 - called at once
    assert before.items() <= words(busy_shop).items()


def test_a_replay_whose_words_are_gone_says_so_and_may_begin_anew(busy_shop: Harness) -> None:
    run_id = fail_before_the_answer(busy_shop)
    with busy_shop.live.database.transaction() as connection:
        connection.execute(schema.step_texts.delete())
    workflow_client = busy_shop.live.workflow_client
    workflow_client.replays.replay_run(run_id)
    told = "was deleted: replay this run from its first step"

    def error() -> str:
        run = workflow_client.runs.find_run(run_id)
        return str(run.error) if run else ""

    wait_until(lambda: told in error(), 30, "the run to say so")
    workflow_client.replays.replay_run(run_id, 1)
    busy_shop.wait_for_mails(ADA)


def keep_for(shop: Harness, days: float) -> None:
    now = shop.live.now() + timedelta(days=days)
    services.bind(replace(shop.live, now=lambda: now))


@pytest.mark.parametrize(("days", "stay"), [(29, True), (31, False)])
def test_words_go_with_the_histories_that_speak_of_them(
    shop: Harness, days: int, stay: bool
) -> None:
    with running(shop):
        shop.stock(order())
        shop.write("Where is my order W1001?")
        shop.wait_for_mails(ADA)
        wait_for_quiet(shop)
    assert words(shop)
    keep_for(shop, days)
    housekeeping.delete_histories(housekeeping.Deadline(None))
    assert bool(words(shop)) is stay


def test_words_of_a_conversation_that_waits_stay(shop: Harness) -> None:
    with running(shop):
        fail_before_the_answer(shop)
    before = words(shop)
    keep_for(shop, 400)
    housekeeping.delete_histories(housekeeping.Deadline(None))
    assert words(shop) == before
