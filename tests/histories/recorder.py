"""Plays the stories and writes down what DBOS recorded of their runs."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness import Harness, open_shop, running, wait_until
from tests.histories.history import FOLDER, ROWS, History, Step, write
from tests.histories.stories import STORIES, Story, ended, settings_of
from tests.round_trips.approvals import link_in

# How DBOS's tables are called on SQLite, where they stand beside ours.
_NOT_OURS = re.compile(
    "^(dbos_|sqlite_|workflow_|operation_|notifications|streams|queues|application_|event_|transaction_)"
)

_RUNS = """
    SELECT runs.*, given.inputs AS given, came.output AS came, came.error AS failed
    FROM workflow_status AS runs
    LEFT JOIN workflow_input AS given USING (workflow_uuid)
    LEFT JOIN workflow_output AS came USING (workflow_uuid)
    ORDER BY runs.created_at, runs.workflow_uuid
"""


def record(release: str, fresh: Callable[[], str], only: str = "") -> list[str]:
    """Play the stories, each on a database of its own; return the names of the files written. A story that
    the release cannot play, because it is of something newer, is said and left out."""
    written = []
    for story in STORIES:
        if only in story.name:
            try:
                written += _record(release, story, fresh())
            except (AssertionError, ImportError, sa.exc.OperationalError) as problem:
                first = str(problem).partition("\n")[0]
                print(f"{story.name}: NOT RECORDED: {first}", flush=True)
            else:
                print(f"{story.name}: {len(written)} files so far", flush=True)
    return written


def _record(release: str, story: Story, database_url: str) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            settings_of(story, folder) as settings,
            open_shop(folder, database_url, settings) as shop,
        ):
            with running(shop):
                story.play(shop)
                if not story.cut:
                    wait_until(lambda: ended(shop), 60, f"the end of {story.name}")
            if story.cut:
                _write_rows(release, story, shop)
            return _write_runs(release, story, shop)


def _write_runs(release: str, story: Story, shop: Harness) -> list[str]:
    """Write the runs of a story; of those that come by the clock only where the story is about them."""
    written, seen = [], Counter[str]()
    for run in shop.rows(_RUNS):
        by_the_clock = {"a minute": "sweep", "an hour": "housekeeping"}
        wanted = by_the_clock.get(story.name)
        if (wanted or run.name) != run.name or (wanted and seen):
            continue
        if not wanted and run.name in by_the_clock.values():
            continue
        seen[run.name] += 1
        number = f"-{seen[run.name]}" if seen[run.name] > 1 else ""
        written.append(f"{run.name}-{story.name.replace(' ', '-')}{number}")
        write(_history(release, story, shop, run), written[-1])
    return written


def _history(release: str, story: Story, shop: Harness, run: Any) -> History:
    query = "SELECT * FROM operation_outputs WHERE workflow_uuid = :run_id ORDER BY function_id"
    return History(
        release=release,
        story=story.name,
        workflow=run.name,
        run_id=run.workflow_uuid,
        application_version=run.application_version,
        status=run.status,
        inputs=_parsed(run.given),
        output=_parsed(run.came),
        error=_parsed(run.failed),
        serialization=run.serialization,
        created_at_ms=run.created_at,
        steps=tuple(_step(row) for row in shop.rows(query, run_id=run.workflow_uuid)),
    )


def _step(row: Any) -> Step:
    return Step(
        number=row.function_id,
        name=row.function_name,
        output=_parsed(row.output),
        error=_parsed(row.error),
        serialization=row.serialization,
        started_at_ms=row.started_at_epoch_ms,
    )


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _write_rows(release: str, story: Story, shop: Harness) -> None:
    """Write all rows of the shop, for a story that goes on after the upgrade."""
    with shop.live.database.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = sorted(name for (name,) in found if not _NOT_OURS.match(name))
        rows = {
            table: [
                {key: _plain(value) for key, value in row._mapping.items()}
                for row in connection.exec_driver_sql(f"SELECT * FROM {table}")
            ]
            for table in tables
        }
    (migration,) = (row["version_num"] for row in rows.pop("alembic_version"))
    links = [link_in(mail.text) for mail in shop.mailboxes.sent() if "/approvals/" in mail.text]
    kept = {"migration": migration, "links": links, "rows": {k: v for k, v in rows.items() if v}}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    path = FOLDER / release / f"{ROWS}{story.name.replace(' ', '-')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def _plain(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
