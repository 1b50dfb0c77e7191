"""Starts and stops the workflow engine in this process: queues, schedule, identity of the worker."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from dbos._enterprise import ConductorThread

from mailagent import engine
from mailagent.store.database import open_database
from mailagent.store.errors import mark_outages
from mailagent.telemetry import log_ids, spans
from mailagent.workflows import conversation, delivery, maintenance, refund
from mailagent.workflows.recovery import Heartbeat
from mailagent.workflows.steps.recording import at_work

logger = logging.getLogger(__name__)

# DBOS registers workflows when their modules are imported.
WORKFLOWS = (conversation, delivery, maintenance, refund)

SQLITE_POLL_SECONDS = 0.2
# An idle worker does nearly nothing but poll. Conversations are polled most often, because a customer waits for
# the answer. Deliveries can wait: most answers are sent without one.
QUEUE_POLL_SECONDS = {
    engine.CONVERSATIONS: 0.2,
    engine.REFUNDS: 0.5,
    engine.DELIVERIES: 1.0,
}
CLOSE_SECONDS = 3.0
# Threads for the steps of async workflows, beside one for each conversation.
STEP_THREADS = 64
CONDUCTOR_URL = "wss://cloud.dbos.dev/conductor/v1alpha1"  # DBOS's own
# DBOS fails a run when it gets no connection in this time, so let it wait as for a database that is away.
POOL_SECONDS = 3600.0

_SCHEDULES = {
    engine.SWEEP: (maintenance.sweep, maintenance.EVERY_MINUTE),
    engine.HOUSEKEEPING: (maintenance.housekeeping, maintenance.EVERY_HOUR),
    engine.PREVIEWS: (maintenance.previews, maintenance.EVERY_MINUTE),
}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the workflow engine runs in this process.

    `worker_id`: None for one of `claim_worker_id`. Keep it the same across restarts: at launch DBOS recovers
    the runs of its own worker id, but the runs of another id wait until that worker's lease ends.
    `conversation_concurrency`: how many conversations this process answers at once. `beat_file`: see
    `Heartbeat.start`. `shadow`: the scheduled workflow of that name and its cron expression; None if it is off.
    """

    database_url: str
    worker_id: str | None
    conversation_concurrency: int
    conductor_key: str | None = None
    conductor_url: str | None = None
    conductor_metadata_only: bool = False
    beat_file: Path | None = None
    shadow: tuple[Callable[[datetime, Any], None], str] | None = None


@dataclass(frozen=True, slots=True)
class _Launched:
    """`system`: our SQLAlchemy engine for DBOS's tables; None on SQLite, where DBOS opens its own."""

    dbos: DBOS
    system: sa.Engine | None


_launched: list[_Launched] = []
_held_locks: list[IO[str]] = []


def _runs_here() -> frozenset[str] | None:
    """Return the ids of the runs that DBOS executes in this process, including those that wait. None while it
    starts or stops, or while a run may be waiting for a thread."""
    for each in _launched:
        executor = each.dbos._executor_field
        if executor is not None and executor._work_queue.empty():
            return frozenset(each.dbos._active_workflows_set.activeList())
    return None


_heartbeat = Heartbeat(_runs_here)


def launch(config: EngineConfig) -> None:
    """Start running workflows. The schema must be migrated already. Raises RuntimeError if there is no free
    worker number."""
    sqlite = sa.make_url(config.database_url).drivername == "sqlite"
    system = None if sqlite else _open_system(config.database_url)
    worker_id = config.worker_id or claim_worker_id(config.database_url)
    log_ids.describe_process(worker_id=worker_id)
    mark_outages()
    at_work.open()
    # Before the first run: other workers take over the runs of a worker without a lease.
    _heartbeat.start(worker_id, config.beat_file)
    dbos = DBOS(config=_config(config, worker_id, system))
    _launched.append(_Launched(dbos, system))
    DBOS.launch()
    if config.conductor_key:
        dbos.conductor_websocket = _connect_console(dbos, config, config.conductor_key)
    _register_queues(config.conversation_concurrency)
    _apply_schedules(config.shadow)


def _open_system(url: str) -> sa.Engine:
    return open_database(url, name="dbos_transact", pool_seconds=POOL_SECONDS).engine


def _config(config: EngineConfig, worker_id: str, system: sa.Engine | None) -> DBOSConfig:
    return DBOSConfig(
        name=engine.APPLICATION_NAME,
        system_database_url=config.database_url,
        application_version=engine.APPLICATION_VERSION,
        executor_id=worker_id,
        serializer=DBOSPortableJSONSerializer(),
        run_migrations=False,
        system_database_engine=system,
        # DBOS logs failed statements, and their parameters are what steps returned.
        db_engine_kwargs={"hide_parameters": True, "pool_timeout": POOL_SECONDS},
        notification_listener_polling_interval_sec=1.0 if system else SQLITE_POLL_SECONDS,
        log_level="WARNING",
        enable_patching=True,
        # Without a bound, each step of a refund takes a new thread, and DBOS never ends it.
        max_executor_threads=config.conversation_concurrency + STEP_THREADS,
        enable_otlp=spans.is_on(),
        otel_attribute_format="semconv",
    )


def _connect_console(dbos: DBOS, config: EngineConfig, key: str) -> ConductorThread:
    """Connect to the DBOS console under this worker's name; `DBOS.destroy()` ends the connection.

    `DBOS.launch()`, given the key, would replace the name by a random one at each start.
    """
    from dbos_enterprise import ConductorWebsocket

    connection = ConductorWebsocket(
        dbos,
        app_name=engine.APPLICATION_NAME,
        conductor_url=config.conductor_url or CONDUCTOR_URL,
        conductor_key=key,
        executor_metadata={"worker_id": DBOS.executor_id},
        metadata_only_mode=config.conductor_metadata_only,
        alert_handler=None,
    )
    connection.start()
    return connection


def _apply_schedules(shadow: tuple[Callable[[datetime, Any], None], str] | None) -> None:
    schedules = _SCHEDULES | ({engine.SHADOW: shadow} if shadow else {})
    DBOS.apply_schedules(
        [
            {"schedule_name": name, "workflow_fn": workflow, "schedule": cron, "context": None}
            for name, (workflow, cron) in schedules.items()
        ]
    )
    if shadow is None:
        DBOS.delete_schedule(engine.SHADOW)


def _register_queues(conversation_concurrency: int) -> None:
    # One run per partition on all workers: a customer's proven mail, or their unproven mail. DBOS picks
    # partitions at random if there is no room for all, so one customer's flood holds up no other.
    DBOS.register_queue(
        engine.CONVERSATIONS,
        partition_concurrency=1,
        worker_concurrency=conversation_concurrency,
        polling_interval_sec=QUEUE_POLL_SECONDS[engine.CONVERSATIONS],
    )
    # Unbounded: these runs wait for people and for retries, and a waiting run keeps its slot.
    for name in (engine.REFUNDS, engine.DELIVERIES):
        DBOS.register_queue(name, polling_interval_sec=QUEUE_POLL_SECONDS[name])


def stop(drain_seconds: float = 0, hurry: Callable[[], bool] = lambda: False) -> bool:
    """Stop running workflows: begin no more steps, and wait up to `drain_seconds` for running ones, or until
    `hurry` returns true. Then end the worker's lease, and enqueue its unfinished runs for other workers.

    Returns whether all steps have ended. A step that still runs may keep its thread.
    """
    at_work.leave()
    ending = list(_launched)
    _launched.clear()
    for each in ending:
        for event in each.dbos.background_thread_stop_events:
            event.set()  # queues and schedules start no more runs
    done = at_work.wait_until_done(drain_seconds, hurry)
    if not done:
        logger.warning("event=step_not_ended: a step is still at work; its run goes on elsewhere")
    closing = threading.Thread(target=_close, args=(ending,), name="closing", daemon=True)
    closing.start()
    # DBOS waits for each of its threads. A process that ends has no time for one that hangs.
    closing.join(CLOSE_SECONDS if drain_seconds else None)
    _heartbeat.stop()  # after DBOS's last poll, which could take a run that was just enqueued again
    return done


def _close(ending: list[_Launched]) -> None:
    DBOS.destroy()
    for each in ending:
        if each.system is not None:
            each.system.dispose()


def claim_worker_id(database_url: str) -> str:
    """Return `HOST-NUMBER`, with the lowest number that no other process on this machine has for this database.

    The operating system releases the number when the process dies, so a restart gets it again. Raises
    RuntimeError if no number is free.
    """
    database = hashlib.sha256(database_url.encode()).hexdigest()[:12]
    for number in range(1, 1000):
        path = Path(tempfile.gettempdir()) / f"mailagent-{database}-{number}.lock"
        try:
            lock = path.open("a")
        except OSError:  # another user's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held_locks.append(lock)
        return f"{socket.gethostname()}-{number}"
    raise RuntimeError("no free worker number on this machine; set WORKER_ID")
