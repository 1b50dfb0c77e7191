"""compose.yaml and its example of an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailagent.demo.process import ROOT
from mailagent.settings import SettingsProblem, load_settings
from tests.deploy.files import EXAMPLE, compose, filled_in

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
