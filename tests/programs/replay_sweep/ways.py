"""The ways to replay a run: ours, and those of DBOS's own client, which its console and `dbos workflow`
take; these wake no wake-up afterwards and name no queue of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbos import DBOSClient, DBOSPortableJSONSerializer
from dbos import error as dbos_error

from mailagent.engine import QUEUE_OF
from mailagent.engine.replay import ReplayRefused
from mailagent.engine.run import Run
from tests.harness import Harness


@dataclass(frozen=True, slots=True)
class Hands:
    """What somebody replays with: our workflow client, and DBOS's bare client."""

    harness: Harness
    client: DBOSClient

    @classmethod
    def of(cls, harness: Harness) -> Hands:
        client = DBOSClient(
            system_database_engine=harness.live.database.engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name="mailagent",
        )
        return cls(harness, client)


Do = Callable[[Hands, Run, int], None]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to replay a run from a step. `at_work`: it takes runs that have not ended; `whole`: it knows
    no steps."""

    name: str
    do: Do
    ended: bool = True
    at_work: bool = False
    whole: bool = False

    def try_on(self, hands: Hands, run: Run, step: int) -> bool:
        """Replay; return False where that is refused, which is an answer, too."""
        try:
            self.do(hands, run, step)
        except (ReplayRefused, dbos_error.DBOSException):
            return False
        return True


def _rewind(hands: Hands, run: Run, step: int) -> None:
    hands.harness.live.workflow_client.replays.replay_run(run.run_id, step)


def _fork(hands: Hands, run: Run, step: int) -> None:
    hands.harness.live.workflow_client.replays.fork_run(run.run_id, step)


def _bare_rewind(hands: Hands, run: Run, step: int) -> None:
    hands.client.rewind_workflow(run.run_id, start_step=step)


def _bare_fork(hands: Hands, run: Run, step: int) -> None:
    hands.client.fork_workflow(run.run_id, step)


def _bare_resume(hands: Hands, run: Run, _step: int) -> None:
    hands.client.resume_workflow(run.run_id)


def _enqueue_again(hands: Hands, run: Run, _step: int) -> None:
    options = {
        "workflow_name": run.workflow,
        "queue_name": QUEUE_OF[run.workflow],
        "workflow_id": run.run_id,
    }
    if run.workflow == "conversation":
        options["queue_partition_key"] = run.subject
    hands.client.enqueue(options, run.subject)  # type: ignore[arg-type]  # a TypedDict built in two steps


def _cancelled_first(do: Do) -> Do:
    def act(hands: Hands, run: Run, step: int) -> None:
        hands.client.cancel_workflow(run.run_id)
        do(hands, run, step)

    return act


WAYS = (
    Way("rewind", _rewind),
    Way("fork", _fork),
    Way("rewind by DBOS", _bare_rewind),
    Way("fork by DBOS", _bare_fork, at_work=True),
    Way("resume by DBOS", _bare_resume, at_work=True, whole=True),
    Way("enqueue again", _enqueue_again, at_work=True, whole=True),
    Way("cancel, rewind", _cancelled_first(_rewind), at_work=True),
    Way("cancel, fork", _cancelled_first(_fork), at_work=True),
    Way("cancel, resume", _cancelled_first(_bare_resume), at_work=True, whole=True),
    Way("cancel, fork by DBOS", _cancelled_first(_bare_fork), ended=False, at_work=True),
)
