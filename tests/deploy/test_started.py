"""What compose, systemd and Kubernetes start is the app: its commands, settings, routes and times."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from mailagent import services, serving
from mailagent.app import create_app
from mailagent.buffering import HEAD_SECONDS
from mailagent.cli.worker import DRAIN_SECONDS
from mailagent.demo.process import ROOT
from mailagent.settings import SETTINGS, SettingsProblem, load_settings
from mailagent.web.webhooks.body import LARGEST_BYTES
from mailagent.workflows.launch import CLOSE_SECONDS
from mailagent.workflows.recovery import LEAVE_SECONDS
from tests.deploy.files import (
    EXAMPLE,
    UNITS,
    Started,
    compose,
    documents,
    filled_in,
    pods,
    started,
    unit,
)
from tests.processes import base_environment

STARTED = started()
DOCUMENTS = UNITS.parents[1]
# Not the app's: the database's container, the interpreter, the search path, the folder of temporary files.
OTHERS = {
    *("POSTGRES_PASSWORD", "POSTGRES_IMAGE", "WORKERS"),
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PATH", "TMPDIR", "FLASK_SKIP_DOTENV"),
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


def test_no_command_replaces_what_flask_setup_wrote() -> None:
    told = [*DOCUMENTS.glob("*.md"), ROOT / "compose.yaml", ROOT / ".env.example"]
    commands = [line for each in told for line in re.findall(r"\bcp .*", each.read_text("utf-8"))]
    copies = [each for each in commands if " .env.example .env" in each]
    assert copies
    assert [each for each in copies if "--no-clobber" not in each] == []


# --- systemd --------------------------------------------------------------------------------------


PATHS = sorted(UNITS.glob("*.service"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_none_runs_as_root_or_with_more_than_it_needs(path: Path) -> None:
    assert path.name.startswith("mailagent-")  # else the drop-in is not for it
    settings = dict(unit(path))
    assert settings["User"] not in ("root", "0")
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["EnvironmentFile"].startswith("/etc/")
    # `flask setup`, run as root beside them, makes a file that they may not read.
    assert ("Environment", "FLASK_SKIP_DOTENV=1") in unit(path)


def test_each_instance_of_the_worker_has_a_name_of_its_own_on_every_machine() -> None:
    (environment, *_) = [value for name, value in unit(UNITS / "mailagent-worker@.service")
                         if name == "Environment"]  # fmt: skip
    assert "WORKER_ID=%H-%i" in environment.split()


# --- proxies --------------------------------------------------------------------------------------


DOCUMENT = (DOCUMENTS / "deploy.md").read_text("utf-8")
(SECTION,) = re.findall(r"^## The reverse proxy\n(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
NGINX, CADDY = re.findall(r"^```\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
LARGEST = LARGEST_BYTES // 1024 // 1024


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (
            NGINX,
            [
                f"client_max_body_size {LARGEST}m;",
                f"client_header_timeout {HEAD_SECONDS:.0f}s;",
                "client_body_timeout 15s;",
                "proxy_request_buffering on;",
                "limit_conn per_address 64;",
                "limit_conn_status 503;",
            ],
        ),
        (
            CADDY,
            [
                f"read_header {HEAD_SECONDS:.0f}s",
                "read_body 5m",
                f"request_buffers {LARGEST}MiB",
            ],
        ),
    ],
    ids=["nginx", "caddy"],
)
def test_the_proxy_buffers_has_time_outs_and_limits(shown: str, lines: list[str]) -> None:
    for line in lines:
        assert line in shown
    assert shown.count("{") == shown.count("}")


# --- dbos config ----------------------------------------------------------------------------------


CLOUD = {
    "DBOS__CLOUD": "true",
    "DBOS__APPVERSION": "a1b2",
    "DBOS__VMID": "machine-7",
    "DBOS_SYSTEM_DATABASE_URL": "postgresql://shop:pw%24@db.test:5432/mailagent_dbos_sys?sslmode=require",
}


def environment_of(command: str, **told: str) -> dict[str, str]:
    """Return the environment that the program behind a command of the file is started with."""
    wrapped, _, _ = command.partition(".sh ")
    done = subprocess.run(
        f"{wrapped}.sh env",
        shell=True,  # as DBOS runs it
        cwd=ROOT,
        env={**base_environment(), **told},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def commands() -> list[str]:
    (config,) = documents(ROOT / "dbos-config.yaml")
    return [*config["runtimeConfig"]["start"], *config["database"]["migrate"]]


@pytest.mark.parametrize("command", commands())
def test_dbos_cloud_is_a_machine_like_any_other(command: str) -> None:
    found = environment_of(command, **CLOUD)
    assert found["DATABASE_URL"] == (
        "postgresql+psycopg://shop:pw%24@db.test:5432/mailagent_dbos_sys?sslmode=require"
    )
    assert (found["WORKER_ID"], found["PORT"]) == ("machine-7", "8000")
    assert not {name for name in found if name.startswith("DBOS__")}


@pytest.mark.parametrize("command", commands())
def test_elsewhere_nothing_is_changed(command: str) -> None:
    told = {"DATABASE_URL": "sqlite:///mine.db", "WORKER_ID": "mine"}
    found = environment_of(command, **told)
    assert {name: found.get(name) for name in (*told, "PORT")} == {**told, "PORT": None}


# --- compose --------------------------------------------------------------------------------------


FIXED = {"MAILAGENT_ENV": "production", "DATABASE_URL": "postgresql+psycopg://mailagent@db/m"}


@pytest.mark.parametrize("role", ["web", "worker"])
def test_the_example_has_all_that_production_wants(tmp_path: Path, role: str) -> None:
    settings = load_settings(FIXED | filled_in(tmp_path) | {"MAILAGENT_ROLE": role})
    assert settings.production


def test_the_example_as_it_is_does_not_start() -> None:
    with pytest.raises(SettingsProblem) as found:
        load_settings(FIXED | EXAMPLE | {"MAILAGENT_ROLE": "web"})
    for name in ("SECRET_KEY", "SENDGRID_INBOUND_PUBLIC_KEY", "SUPPORT_ADDRESS", "MANAGER_EMAILS"):
        assert any(problem.startswith(name) for problem in found.value.problems), name


def test_what_is_filled_in_is_never_committed() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text("utf-8").split()


def test_nothing_starts_before_the_migrations_have_ended() -> None:
    services = compose()["services"]
    waits = {"migrate": {"condition": "service_completed_successfully"}}
    assert services["web"]["depends_on"] == services["worker"]["depends_on"] == waits
    assert services["migrate"]["restart"] == "no"
    assert services["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}


def test_each_image_is_built_once() -> None:
    services = compose()["services"].values()
    built = [each["image"] for each in services if "build" in each]
    assert built == ["mailagent"]
    # The others of that name would be asked for at a registry.
    assert {each.get("pull_policy") for each in services if each["image"] in built} == {"never"}


def test_the_database_has_no_port_and_keeps_its_data() -> None:
    database = compose()["services"]["db"]
    assert "ports" not in database
    assert [volume.partition(":")[0] for volume in database["volumes"]] == list(
        compose()["volumes"]
    )


def test_two_workers_may_not_share_a_name() -> None:
    worker = compose()["services"]["worker"]
    # By a setting, or each `up` sets it back.
    assert worker["deploy"]["replicas"] == "${WORKERS:-2}"
    assert "WORKER_ID" not in worker["environment"]
    assert "WORKER_ID" not in EXAMPLE
