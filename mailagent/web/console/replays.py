"""Replays of many runs that failed for the same reason: the reasons, the plan, and what became of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.replay import plan_replay, tell_rows
from mailagent.engine import QUEUE_OF
from mailagent.engine.reasons import Reason, reason_key, sort_by_reason
from mailagent.engine.replay import ReplayRefused
from mailagent.engine.run import Run, first_step_to_repeat
from mailagent.store import audit
from mailagent.store.console import dismissals, run_subjects
from mailagent.store.ids import new_id
from mailagent.store.pagination import Window
from mailagent.web.console.labels import WORKFLOWS, money, run_path
from mailagent.web.console.page import found, go_to, page, record_act, typed
from mailagent.web.console.runs import line_of, seen_of
from mailagent.web.guard import needs
from mailagent.web.language import _, sentence

blueprint = Blueprint("ops_replays", __name__)

LOOK_BACK = timedelta(days=30)
FAILED_MAX = 300  # how many failed runs the list of reasons reads, the newest
PAGES_MAX = 10  # how often the plan of a reason reads so many
RUNS_AT_ONCE = 50  # how many runs one form replays
REPLAYED_TOGETHER: Final = "runs replayed together"


@blueprint.get("/ops/replays")
@needs(Permission.RUNS)
def show() -> Response:
    """Show the reasons why runs failed. With `reason`, show the plan of replaying these runs; for a single run,
    its own plan page. This starts nothing."""
    if key := typed("reason"):
        return _show_plan(key, request.args)
    run_ids = _list_failed()
    window = Window(newest_first=True, size=5)
    with services.current().database.snapshot() as connection:
        earlier = audit.read(connection, audit.Wanted(action=REPLAYED_TOGETHER), window)
    return page(
        "ops/replays.html",
        reasons=sort_by_reason(_find_failed(run_ids[-FAILED_MAX:])),
        workflows=WORKFLOWS,
        more=len(run_ids) > FAILED_MAX,
        earlier=earlier.rows,
    )


def _list_failed(since: datetime | None = None, until: datetime | None = None) -> list[str]:
    """Return the failed runs that can be replayed and that no later run has replaced, oldest first: those of
    the last days, or those that failed from the minute `since` to the minute `until`."""
    live, last = services.current(), until or datetime.max.replace(tzinfo=UTC)
    first = since or (datetime.fromtimestamp(0, UTC) if until else live.now() - LOOK_BACK)

    def is_wanted(connection: sa.Connection, failed: sa.Subquery) -> sa.ColumnElement[bool]:
        in_time = failed.c.failed_ms < round((last.timestamp() + 60) * 1000)
        is_open = dismissals.where_open(connection, failed)
        return in_time & is_open & failed.c.workflow.in_(QUEUE_OF)

    with live.database.snapshot() as connection:
        return live.workflow_client.tables.list_failed(connection, first, is_wanted)


def _find_failed(run_ids: Sequence[str]) -> list[Run]:
    runs = services.current().workflow_client.runs.find_runs(run_ids).values()
    return [run for run in runs if run.has_failed]


def _find_reason(key: str, run_ids: list[str]) -> tuple[Reason | None, int]:
    """Return those of the runs that failed for a reason, the newest; and how many older ones were not read."""
    alike: list[Run] = []
    for _page in range(PAGES_MAX):
        newest, run_ids = run_ids[-FAILED_MAX:], run_ids[:-FAILED_MAX]
        alike += [run for run in _find_failed(newest) if reason_key(run) == key]
        if len(alike) > RUNS_AT_ONCE:
            break
    return next(iter(sort_by_reason(alike)), None), len(run_ids)


def _show_plan(key: str, source: Mapping[str, str], refused: bool = False) -> Response:
    facts = {"reason": key, "from": typed("from", source), "to": typed("to", source)}
    since, until = _parse_minute(facts["from"]), _parse_minute(facts["to"])
    reason, unread = _find_reason(key, _list_failed(since, until))
    chosen = reason.runs if reason else ()
    if len(chosen) == 1 and not (unread or since or until or refused):
        return go_to(f"{run_path(chosen[0].run_id)}/replay")
    with services.current().database.snapshot() as connection:
        plan = _plan(connection, chosen[:RUNS_AT_ONCE])
    return page(
        "ops/replay_together.html",
        409 if refused else 200,
        reason=reason,
        workflow=WORKFLOWS.get(reason.workflow, reason.workflow) if reason else "",
        facts=facts,
        count=len(chosen),
        unread=unread,
        days=LOOK_BACK.days,
        refused=refused,
        **plan,
    )


def _parse_minute(text: str) -> datetime | None:
    """Return the time (UTC) in a field of the type datetime-local; None for any other text."""
    try:
        return datetime.strptime(text[:16], "%Y-%m-%dT%H:%M").replace(tzinfo=UTC)
    except ValueError:
        return None


def _plan(connection: sa.Connection, runs: Sequence[Run]) -> dict[str, Any]:
    known = run_subjects.list_subjects(connection, {run.subject for run in runs})
    acts = audit.count_each(connection, [run.run_id for run in runs])
    name = services.current().order_source_name
    rows = run_subjects.look(connection, {run.subject for run in runs}, source_name=name)
    lines = []
    for run in runs:
        told = tell_rows(rows[run.subject], sentence) if run.subject in rows else ()
        line = line_of(run, known.get(run.subject))
        lines.append(line | {"told": told, "seen": seen_of(run, acts[run.run_id])})
    about = [(facts.about.refund_id, facts.amount) for facts in known.values()]
    amounts = {refund_id: amount for refund_id, amount in about if refund_id and amount}
    first = services.current().workflow_client.runs.find_run(runs[0].run_id, True) if runs else None
    plan = None
    if first is not None:
        plan = plan_replay(first.workflow, first.steps, first_step_to_repeat(first), None, _)
    return {"lines": lines, "total": _total(amounts.values()), "plan": plan}


def _total(amounts: Iterable[Money]) -> str:
    sums: Counter[str] = Counter()
    for amount in amounts:
        sums[amount.currency] += amount.minor
    return ", ".join(money(minor, currency) for currency, minor in sums.items())


# --- the replay -----------------------------------------------------------------------------------


@blueprint.post("/ops/replays")
@needs(Permission.RUNS)
def replay() -> Response:
    """Rewind the runs that the form names, unless they have changed. A second click changes nothing."""
    live = services.current()
    asked = dict(each.rpartition(" ")[::2] for each in request.form.getlist("run")[:RUNS_AT_ONCE])
    runs = live.workflow_client.runs.find_runs(list(asked))
    with live.database.transaction() as connection:
        acts = audit.count_each(connection, list(asked))
        ready = [
            run_id
            for run_id, run in runs.items()
            if run.has_failed and seen_of(run, acts[run_id]) == asked[run_id]
        ]
        replay_id, details = new_id("replay"), {"runs": ready}
        if ready:
            # Record it before the replays: if this process dies, the page of this replay shows what is left.
            record_act(connection, REPLAYED_TOGETHER, replay_id, details)
    if not ready:
        return _show_plan(typed("reason", request.form), request.form, refused=True)
    for run_id in ready:
        _replay(run_id, replay_id)
    return go_to(f"/ops/replays/{replay_id}")


def _replay(run_id: str, replay_id: str) -> None:
    live = services.current()
    try:
        run = live.workflow_client.replays.replay_run(run_id)
    except ReplayRefused:
        return  # another person has just replayed it; the page shows its state
    details = {"from_step": first_step_to_repeat(run), "together": replay_id}
    with live.database.transaction() as connection:
        record_act(connection, "run rewound", run_id, details)


@blueprint.get("/ops/replays/<replay_id>")
@needs(Permission.RUNS)
def show_progress(replay_id: str) -> Response:
    """Show what became of the runs that were replayed together."""
    live = services.current()
    with live.database.snapshot() as connection:
        wanted = audit.Wanted(subject=replay_id, action=REPLAYED_TOGETHER)
        rows = audit.read(connection, wanted, Window(newest_first=True)).rows
        act = found(rows[0] if rows else None, "replay")
        runs = live.workflow_client.runs.find_latest(act.details["runs"])
        known = run_subjects.list_subjects(connection, {run.subject for run in runs.values()})
    return page(
        "ops/replay_progress.html",
        act=act,
        lines=[line_of(run, known.get(run.subject)) for run in runs.values()],
        **_count(list(runs.values())),
    )


def _count(runs: Sequence[Run]) -> Mapping[str, int]:
    return {
        "total": len(runs),
        "active": sum(run.is_active for run in runs),
        "failed": sum(run.has_failed for run in runs),
        "put_off": sum(run.was_put_off for run in runs),
    }
