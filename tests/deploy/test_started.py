"""What compose, systemd and Kubernetes start is the app: its commands, settings, routes and times."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mailagent import services, serving
from mailagent.app import create_app
from mailagent.cli.worker import DRAIN_SECONDS
from mailagent.settings import SETTINGS
from mailagent.workflows.launch import CLOSE_SECONDS
from mailagent.workflows.recovery import LEAVE_SECONDS
from tests.deploy.files import Started, pods, started

STARTED = started()
# Not the app's: the database's container, the interpreter, the search path, the folder of temporary files.
OTHERS = {
    *("POSTGRES_PASSWORD", "POSTGRES_IMAGE", "WORKERS"),
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PATH", "TMPDIR"),
}


def named(process: Started) -> str:
    return process.name


def test_there_is_every_part_on_every_platform() -> None:
    parts = {(each.name.partition(":")[0], each.command[0]) for each in STARTED}
    assert parts == {
        (platform, program)
        for platform in ("compose", "systemd", "kubernetes")
        for program in ("gunicorn", "flask", "alembic")
    }


@pytest.mark.parametrize("process", STARTED, ids=named)
def test_every_setting_exists(process: Started) -> None:
    assert process.environment - OTHERS <= {each.name for each in SETTINGS}


# The wait for the beats' thread and the wait for a lock: LEAVE_SECONDS twice.
AFTER_STEPS_SECONDS = CLOSE_SECONDS + 2 * LEAVE_SECONDS


@pytest.mark.parametrize("process", [each for each in STARTED if each.runs_on], ids=named)
def test_who_is_asked_to_end_is_given_the_time_for_it(process: Started) -> None:
    worker = DRAIN_SECONDS + AFTER_STEPS_SECONDS
    assert process.grace_seconds > max(worker, serving.graceful_timeout)


def test_gunicorn_lets_a_process_that_also_works_come_to_its_end() -> None:
    assert serving.graceful_timeout >= serving.DRAIN_SECONDS + AFTER_STEPS_SECONDS


@pytest.mark.parametrize("process", [each for each in STARTED if each.runs_on], ids=named)
def test_every_process_knows_its_role(process: Started) -> None:
    assert {"MAILAGENT_ROLE", "MAILAGENT_ENV"} <= process.environment


def test_commands_and_probes_are_the_apps(tmp_path: Path) -> None:
    app = create_app({"SECRET_KEY": "a key", "DATABASE_URL": f"sqlite:///{tmp_path}/unused.db"})
    try:
        asked = {each.command[1] for each in STARTED if each.command[0] == "flask"}
        assert isinstance(app.cli, click.Group)
        assert asked <= app.cli.commands.keys()
        probed = set(re.findall(r"'path': '([^']+)', 'port'", str(list(pods()))))
        assert probed == {"/healthz", "/readyz"}
        assert probed <= {rule.rule for rule in app.url_map.iter_rules()}
    finally:
        services.current().workflow_client.close()
        services.current().database.close()
        services.bind(None)
