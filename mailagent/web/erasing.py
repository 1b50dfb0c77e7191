"""Erases a customer, for the console and the command line: their rows, and the histories of runs about these
rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mailagent import services
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.shop import person_of
from mailagent.engine import ACTIVE
from mailagent.store.privacy import erasure, erasure_scope
from mailagent.store.privacy.erasure_scope import Obstacle
from mailagent.web.language import _


@dataclass(frozen=True, slots=True)
class Plan:
    """What erasing an address would do. `counts`: the number of their rows, by label."""

    counts: Mapping[str, int]
    obstacles: tuple[Obstacle, ...]
    ended_runs: tuple[str, ...]
    is_known: bool


def read_address(text: str) -> str | None:
    """Return a typed mail address in its stored form; None for an invalid one."""
    return normalise_address(text.strip()) if text.isprintable() else None


def plan(email: str, mentions: bool = True) -> Plan:
    """Return the number of rows of an address, and the obstacles to erasing it. `mentions`: also find mail
    about others that names the address, which is slow; for an address without rows, this is always done."""
    live = services.current()
    with live.database.snapshot() as connection:
        scope = erasure_scope.find(connection, email, mentions)
        if scope.is_empty and not mentions:
            scope = erasure_scope.find(connection, email)
        counts = erasure.count(connection, scope)
        obstacles = erasure_scope.list_obstacles(connection, scope)
    runs = live.workflow_client.runs.list_histories(scope.subjects)
    ended = tuple(run_id for run_id, status in runs.items() if status not in ACTIVE)
    return Plan(
        counts | {"runs": len(runs)},
        (*_own_people(email), *obstacles, *_active_runs(runs, obstacles)),
        ended,
        not scope.is_empty,
    )


def _own_people(email: str) -> tuple[Obstacle, ...]:
    if person_of(email) not in {person_of(each) for each in services.current().shop.people}:
        return ()
    what = _("%(email)s is one of the shop's own people", email=email)
    advice = _("Take it out of OPS_EMAILS, TEAM_EMAILS, MANAGER_EMAILS and REPORT_EMAILS first.")
    return (Obstacle(what, advice),)


def _active_runs(runs: Mapping[str, str], known: list[Obstacle]) -> tuple[Obstacle, ...]:
    if known:
        return ()  # the known obstacles explain the runs
    advice = _("Wait until it has ended, or stop it.")
    return tuple(
        Obstacle(_("A run is active"), advice, f"/ops/runs/{run_id}", run_id)
        for run_id, status in sorted(runs.items())
        if status in ACTIVE
    )


def erase(email: str, actor: str) -> str:
    """Erase an address; return the alias that replaces it.

    It deletes the histories of runs before the rows: if it fails half-way, the rows still lead to the runs, and
    a second call completes it. Raises ErasureRefusedError while there are obstacles.
    """
    live = services.current()
    planned = plan(email)
    if planned.obstacles:
        raise erasure.ErasureRefusedError(planned.obstacles)
    live.workflow_client.replays.delete_histories(planned.ended_runs)
    with live.database.transaction() as connection:
        alias, scope = erasure.erase(connection, email, actor, len(planned.ended_runs), live.now())
    # Also delete the histories of runs that started and ended between the plan and the lock.
    late = live.workflow_client.runs.list_histories(scope.subjects).items()
    live.workflow_client.replays.delete_histories(
        [run_id for run_id, status in late if status not in ACTIVE]
    )
    return alias
