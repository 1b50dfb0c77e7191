"""Runs the app's migrations and then DBOS's own, so that one command leaves the database ready."""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context
from dbos import DBOS

from mailagent.adapters.setting_values import parse_database_url
from mailagent.cli.printing import explain
from mailagent.settings import DEFAULT_DATABASE_URL
from mailagent.store.database import open_database
from mailagent.store.schema import metadata

# A migration that cannot get its lock must give up rather than queue every reader behind it.
LOCK_TIMEOUT = "5s"


def run() -> None:
    url = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get(
        "DATABASE_URL", DEFAULT_DATABASE_URL
    )
    try:
        database = open_database(parse_database_url(url))
    except ValueError as problem:
        raise SystemExit(f"DATABASE_URL: {problem}") from None
    try:
        with database.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
                connection.commit()
            context.configure(
                connection=connection,
                target_metadata=metadata,
                compare_type=True,
                render_as_batch=connection.dialect.name == "sqlite",
                include_name=_ours,
            )
            with context.begin_transaction():
                context.run_migrations()
    except sa.exc.OperationalError as problem:
        raise SystemExit(explain(problem)) from None
    finally:
        database.close()
    if not context.get_x_argument(as_dictionary=True).get("app_only"):
        DBOS.migrate(url)


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    # On SQLite DBOS's tables share our only schema; autogenerate must not offer to drop them.
    return kind != "table" or name in metadata.tables


if context.is_offline_mode():
    raise SystemExit("alembic --sql is not supported: DBOS's tables are made by code")
run()
