"""Starts and stops the workflow engine in this process: queues, schedule, identity of the worker."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from mailagent import doorbell
from mailagent.workflows import conversation, delivery, refund, sweep
from mailagent.workflows.heartbeat import Heartbeat

# Registering is importing: DBOS finds the workflows because these modules were loaded.
WORKFLOWS = (conversation, delivery, refund, sweep)

SQLITE_POLL_SECONDS = 0.2
QUEUE_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Engine:
    """How the engine runs here. `worker_id` must be the same after a restart: a process takes up only
    the runs that were begun under its own name."""

    database_url: str
    worker_id: str | None
    conversation_concurrency: int
    conductor_key: str | None = None
    conductor_url: str | None = None


_held_locks: list[IO[str]] = []

_heartbeat = Heartbeat()


def launch(engine: Engine) -> None:
    """Start running workflows. The schema must be migrated already: no DDL is run here."""
    sqlite = sa.make_url(engine.database_url).drivername == "sqlite"
    config = DBOSConfig(
        name=doorbell.APPLICATION_NAME,
        system_database_url=engine.database_url,
        application_version=doorbell.APPLICATION_VERSION,
        executor_id=engine.worker_id or claim_worker_id(engine.database_url),
        serializer=DBOSPortableJSONSerializer(),
        run_migrations=False,
        # When the database fails, DBOS logs the statement; its parameters are what steps returned.
        db_engine_kwargs={"hide_parameters": True},
        notification_listener_polling_interval_sec=SQLITE_POLL_SECONDS if sqlite else 1.0,
        log_level="WARNING",
        enable_patching=True,
    )
    if engine.conductor_key:
        config["conductor_key"] = engine.conductor_key
        config["conductor_metadata_only_mode"] = True
        if engine.conductor_url:
            config["conductor_url"] = engine.conductor_url
    DBOS(config=config)
    DBOS.launch()
    _heartbeat.start(DBOS.executor_id)
    _register_queues(engine.conversation_concurrency)
    DBOS.apply_schedules(
        [
            {
                "schedule_name": doorbell.SWEEP,
                "workflow_fn": sweep.sweep,
                "schedule": sweep.EVERY_MINUTE,
                "context": None,
            }
        ]
    )


def _register_queues(conversation_concurrency: int) -> None:
    # One run per conversation at a time, on all workers together; so many on this one.
    DBOS.register_queue(
        doorbell.CONVERSATIONS,
        partition_concurrency=1,
        worker_concurrency=conversation_concurrency,
        polling_interval_sec=QUEUE_POLL_SECONDS,
    )
    # Unbounded: these runs wait for people and for retries, and a waiting run keeps its slot.
    for name in (doorbell.REFUNDS, doorbell.DELIVERIES):
        DBOS.register_queue(name, polling_interval_sec=QUEUE_POLL_SECONDS)


def stop(drain_seconds: int = 0) -> None:
    """Stop running workflows; those still at work after `drain_seconds` go on elsewhere or later."""
    DBOS.destroy(workflow_completion_timeout_sec=drain_seconds)
    _heartbeat.stop()


def claim_worker_id(database_url: str) -> str:
    """Return host name + the lowest number that no other process here has for this database.

    The operating system gives the number back when the process dies, so a restart gets it again.
    """
    database = hashlib.sha256(database_url.encode()).hexdigest()[:12]
    for number in range(1, 1000):
        path = Path(tempfile.gettempdir()) / f"mailagent-{database}-{number}.lock"
        lock = path.open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held_locks.append(lock)
        return f"{socket.gethostname()}-{number}"
    raise RuntimeError("no free worker number on this machine; set WORKER_ID")
