"""The suites: whole, of five languages, and what they say leads where they say. `check` plays all of them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from mailagent.adapters.knowledge import read_knowledge
from mailagent.adapters.policy_file import parse_policy
from mailagent.app import ROOT
from mailagent.domain.refunds.policy import Policy
from mailagent.evals.pool import Pool
from mailagent.evals.runs import replay
from mailagent.evals.score import Sample, is_flawless
from mailagent.evals.task import NAMES, SHOP, load_tasks
from mailagent.workflows.tools import registry
from tests.programs.scripted_suites import perfect

TASKS = load_tasks()
# A part of them for each run of the tests; `python -m mailagent.evals check` plays all.
EVERY = 40
# And always this: a manager approves although they read of a refund elsewhere.
ALWAYS = "telescope-partly-refunded"
SIZES = {"tasks": 150, "attacks": 200, "questions": 60, "hand_overs": 40}


def test_the_suites_are_large_enough_to_tell_models_apart() -> None:
    found = Counter(task.suite for task in TASKS)
    assert {suite: found[suite] >= size for suite, size in SIZES.items()} == dict.fromkeys(
        SIZES, True
    )


@pytest.mark.parametrize("suite", NAMES)
def test_the_guide_says_how_large_each_suite_is(suite: str) -> None:
    tasks = [task for task in TASKS if task.suite == suite]
    mails = sum(len(task.turns) for task in tasks)
    calls = sum(int(perfect(task)["turns"]) for task in tasks)
    guide = (ROOT / "docs" / "evals.md").read_text("utf-8")
    assert f"| `{suite}` | {len(tasks)} | {mails} | {calls} |" in guide


def test_every_tool_is_called_for_by_several_tasks() -> None:
    called = Counter(act.tool for task in TASKS for turn in task.turns for act in turn.acts)
    tools = {tool.name for tool in registry.offered(full_policy())}
    assert {tool for tool in tools if called[tool] < 5} == set()
    kinds = Counter(
        str(act.arguments["kind"])
        for task in TASKS
        for turn in task.turns
        for act in turn.acts
        if act.tool == "request_change"
    )
    assert min(kinds[each] for each in ("exchange", "replacement", "change_address")) >= 5


def full_policy() -> Policy:
    """The policy with everything that a task adds to it."""
    names = {name for task in TASKS for name in task.policy}
    tables = [(SHOP / f"{name}.toml").read_text("utf-8") for name in ("policy", *sorted(names))]
    return parse_policy("\n".join(tables))


def test_no_two_mails_are_alike() -> None:
    mails = Counter(turn.mail for task in TASKS for turn in task.turns if len(turn.mail) > 60)
    assert [mail for mail, count in mails.items() if count > 1] == []


@pytest.mark.parametrize("suite", NAMES)
def test_a_suite_is_in_five_languages(suite: str) -> None:
    languages = Counter(task.language for task in TASKS if task.suite == suite)
    assert {"en", "de", "fr", "es", "it"} <= set(languages)
    assert languages["en"] <= 0.8 * languages.total()


def test_every_task_says_what_must_be_on_record_and_a_tasks_customer_has_a_card() -> None:
    assert [task.id for task in TASKS if task.state is None] == []
    assert [task.id for task in TASKS if task.suite == "tasks" and not task.card] == []


@pytest.mark.parametrize(
    "decoy",
    [
        "wrong order named",
        "refused before",
        "partly refunded",
        "two customers of one name",
        "a manager who edits",
    ],
)
def test_tasks_have_decoys(decoy: str) -> None:
    assert sum(decoy in task.tags for task in TASKS if task.suite == "tasks") >= 3


def test_attacks_come_by_every_way_that_a_mail_has() -> None:
    attacks = [task for task in TASKS if task.is_attack]
    orders = (SHOP / "orders.jsonl").read_text("utf-8")
    ways = {
        "html": sum(any(turn.html for turn in task.turns) for task in attacks),
        "file": sum(any(turn.files for turn in task.turns) for task in attacks),
        "quotation": sum(any("\n>" in turn.mail for turn in task.turns) for task in attacks),
        "knowledge": sum(bool(task.passages) for task in attacks),
        "order": sum(word in orders for word in ("SYSTEM: refund", "ASSISTANT :", "<system>")),
        "earlier mail": sum(len(task.turns) > 1 for task in attacks),
        "five tries": sum(bool(task.card) and task.tries == 5 for task in attacks),
    }
    assert {way: count for way, count in ways.items() if count < 3} == {}, ways


def test_attacks_want_something_or_hide_something() -> None:
    attacks = [task for task in TASKS if task.is_attack]
    wanted = [task for task in attacks if task.never or any(turn.lure for turn in task.turns)]
    assert len(wanted) > 0.8 * len(attacks)


def test_every_passage_that_a_task_names_is_there() -> None:
    known = {f"knowledge/{each.passage_id}" for each in read_knowledge(SHOP / "knowledge").passages}
    told = {
        each
        for task in TASKS
        if not task.passages
        for turn in task.turns
        for each in turn.tells
        if each.startswith("knowledge/")
    }
    assert told <= known
    assert len(told) > 15


def test_the_calls_of_a_task_lead_to_the_state_that_it_says(worlds: Pool) -> None:
    tasks = [task for at, task in enumerate(TASKS) if at % EVERY == 0 or task.id == ALWAYS]
    with ThreadPoolExecutor(2) as threads:
        records = list(threads.map(lambda task: replay(worlds, task), tasks))
    wrong = {
        task.id: record.state
        for task, record in zip(tasks, records, strict=True)
        if not is_flawless(Sample(task, record, task.state or ()))
    }
    assert wrong == {}
