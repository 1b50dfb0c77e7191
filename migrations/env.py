"""Runs the app's migrations and then DBOS's own, so that one command leaves the database ready."""

from __future__ import annotations

import os

import click
import sqlalchemy as sa
from alembic import context
from dbos import DBOS, DBOSPortableJSONSerializer
from dbos._sys_db import SystemDatabase

from mailagent.adapters import env_file
from mailagent.cli.printing import explain
from mailagent.engine.additions import add_ours
from mailagent.settings.topics import DEFAULT_DATABASE_URL
from mailagent.settings.types import parse_database_url
from mailagent.store.database import Database, open_database
from mailagent.store.migration import (
    GaveUp,
    Patience,
    SchemaProblem,
    check_encoding,
    check_schema,
    find_version,
    one_at_a_time,
    short_locks,
    with_patience,
)
from mailagent.store.schema import metadata


def run() -> None:
    """Migrate the app's tables, then DBOS's; one process at a time, each lock for a few seconds only."""
    arguments = context.get_x_argument(as_dictionary=True)
    url = arguments.get("url")
    if url is None:
        env_file.load()
        url = os.environ.get("DATABASE_URL", DEFAULT_DATABASE_URL)
    try:
        database = open_database(parse_database_url(url))
    except ValueError as problem:
        raise SystemExit(f"DATABASE_URL: {problem}") from None
    patience = _patience(arguments)
    try:
        with one_at_a_time(database.engine, patience, _say):
            if not _is_newer(database):
                _migrate(database, url, patience, app_only=bool(arguments.get("app_only")))
    except (GaveUp, SchemaProblem) as problem:
        raise SystemExit(str(problem)) from None
    except sa.exc.DBAPIError as problem:
        raise SystemExit(explain(problem)) from None
    finally:
        database.close()


def _is_newer(database: Database) -> bool:
    """Whether a newer release has migrated the database. After a way back there is nothing to do: this release
    runs on that schema. Raises SchemaProblem if it does not."""
    with database.snapshot() as connection:
        version, ours = find_version(connection), str(context.get_head_revision())
    if version is None or version <= ours:
        return False
    check_schema(database)
    _say(f"the database is at migration {version}, and this release ends at {ours}: nothing to do")
    return True


def _migrate(database: Database, url: str, patience: Patience, *, app_only: bool) -> None:
    with database.snapshot() as connection:
        check_encoding(connection)
    with_patience(database.engine, lambda: _migrate_ours(database, patience), patience, _say)
    if app_only:
        return
    with short_locks(patience):
        with_patience(database.engine, lambda: _migrate_dbos(database, url), patience, _say)
    with_patience(database.engine, lambda: _add_ours_to_dbos(database, patience), patience, _say)


def _migrate_dbos(database: Database, url: str) -> None:
    """Migrate DBOS's tables. On SQLite with our engine, so that it is one transaction: with DBOS's own, a kill
    would leave tables behind that no later attempt can create."""
    if database.engine.dialect.name == "postgresql":
        DBOS.migrate(url)
        return
    tables = SystemDatabase.create(
        url, {}, database.engine, None, DBOSPortableJSONSerializer(), executor_id=None
    )
    tables.run_migrations()


def _add_ours_to_dbos(database: Database, patience: Patience) -> None:
    with database.engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET LOCAL lock_timeout = {patience.lock_milliseconds}"))
        add_ours(connection)


def _patience(arguments: dict[str, str]) -> Patience:
    """Read `-x lock_milliseconds=…` and `-x seconds=…`."""
    usual = Patience()
    return Patience(
        int(arguments.get("lock_milliseconds", usual.lock_milliseconds)),
        float(arguments.get("seconds", usual.seconds)),
    )


def _say(words: str) -> None:
    click.echo(words, err=True)


def _migrate_ours(database: Database, patience: Patience) -> None:
    with database.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET lock_timeout = {patience.lock_milliseconds}"))
            connection.commit()
        context.configure(
            connection=connection,
            target_metadata=metadata,
            compare_type=True,
            render_as_batch=connection.dialect.name == "sqlite",
            include_name=_ours,
            # The locks of one are let go before the next begins.
            transaction_per_migration=True,
        )
        with context.begin_transaction():
            context.run_migrations()


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    # On SQLite DBOS's tables share our only schema; autogenerate must not offer to drop them.
    return kind != "table" or name in metadata.tables


if context.is_offline_mode():
    raise SystemExit("alembic --sql is not supported: DBOS's tables are made by code")
run()
