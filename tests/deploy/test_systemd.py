"""The units: who they run as, and that workers have names of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.files import UNITS, unit

PATHS = sorted(UNITS.glob("*.service"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_none_runs_as_root_or_with_more_than_it_needs(path: Path) -> None:
    assert path.name.startswith("mailagent-")  # else the drop-in is not for it
    settings = dict(unit(path))
    assert settings["User"] not in ("root", "0")
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["EnvironmentFile"].startswith("/etc/")


def test_each_instance_of_the_worker_has_a_name_of_its_own_on_every_machine() -> None:
    (environment, _) = [value for name, value in unit(UNITS / "mailagent-worker@.service")
                        if name == "Environment"]  # fmt: skip
    assert "WORKER_ID=%H-%i" in environment.split()
