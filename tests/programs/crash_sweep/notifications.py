"""Wakes what a schedule wakes otherwise: the sweep, once a minute, and the housekeeping, once an hour."""

from __future__ import annotations

import time

from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent import engine
from mailagent.store.ids import new_id
from tests.programs.crash_sweep.shop import SweptShop

PAUSE_SECONDS = 4.0


class ScheduledRuns:
    """Wakes one scheduled workflow again and again, never twice within a few seconds."""

    def __init__(self, shop: SweptShop, workflow: str) -> None:
        self._client = DBOSClient(
            system_database_engine=shop.database.engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=engine.APPLICATION_NAME,
            lazy=True,
        )
        self._workflow = workflow
        self._last_at = 0.0

    def enqueue(self) -> bool:
        """Queue a run if the last one was a while ago; always True, so that a wait can go on with `and`."""
        if time.monotonic() - self._last_at >= PAUSE_SECONDS:
            self._last_at = time.monotonic()
            self._client.enqueue(
                {
                    "workflow_name": self._workflow,
                    "queue_name": engine.DELIVERIES,
                    "workflow_id": new_id(self._workflow),
                },
                "now",
                None,
            )
        return True

    def close(self) -> None:
        self._client.destroy()
