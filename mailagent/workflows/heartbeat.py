"""This worker says every few seconds that it lives, so that others know whose runs to take over."""

from __future__ import annotations

import logging
import threading

import sqlalchemy as sa

from mailagent import services
from mailagent.store import workers

logger = logging.getLogger(__name__)

BEAT_SECONDS = 10.0
# Three beats missed, and some more for a database that answers slowly.
VANISHED_AFTER_SECONDS = 45.0


class Heartbeat:
    """One thread that signs the worker in, again and again, and out at the end."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._worker_id = ""

    def start(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._stopping = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sign out. Runs that were not finished may be taken over at once."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        self._thread = None
        try:
            with services.current().database.transaction() as connection:
                workers.sign_out(connection, self._worker_id)
        except sa.exc.SQLAlchemyError:
            logger.warning("worker %s could not sign out; it will be missed", self._worker_id)

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_SECONDS):
            self._beat()

    def _beat(self) -> None:
        try:
            with services.current().database.transaction() as connection:
                workers.sign_in(connection, self._worker_id)
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not say that it lives", self._worker_id)
