"""The files of requirements: all pinned, all with hashes, the same versions in both."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.databases import ROOT

FILES = ("requirements.txt", "tests/requirements.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def pinned(name: str) -> dict[str, tuple[str, int]]:
    """Return the version of each package, and how many hashes it has."""
    entries = re.split(r"\n(?=[a-z0-9])", (ROOT / name).read_text("utf-8"))[1:]
    found = {}
    for entry in entries:
        match = re.match(r"([a-z0-9-]+)==([^\s;]+)", entry)
        assert match is not None, entry
        found[match[1]] = (match[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_package_has_a_version_and_hashes(name: str) -> None:
    packages = pinned(name)
    assert len(packages) > 40
    assert [package for package, (_, hashes) in packages.items() if not hashes] == []
    assert "://" not in (ROOT / name).read_text("utf-8")


def test_what_runs_is_tested_in_the_same_versions() -> None:
    runs, tests = map(pinned, FILES)
    assert runs.items() <= tests.items()


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (PROJECT["dependencies"], "requirements.txt"),
        (PROJECT["optional-dependencies"]["test"], "tests/requirements.txt"),
    ],
    ids=FILES,
)
def test_the_files_are_written_from_the_project(wanted: list[str], name: str) -> None:
    versions = {package: version for package, (version, _) in pinned(name).items()}
    for each in wanted:
        package, version = re.sub(r"\[.*\]", "", each).split("==")
        assert versions[package] == version, f"run .ci/lock: {each}"
