"""dbos-config.yaml: what `dbos start`, `dbos migrate` and DBOS Cloud run, here and there."""

from __future__ import annotations

import subprocess

import pytest

from mailagent.demo.process import ROOT
from tests.deploy.files import documents
from tests.programs.bench.child import base_environment

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
