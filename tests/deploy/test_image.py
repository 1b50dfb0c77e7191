"""The image: what goes in, who it runs as, and that its parts fit."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailagent.demo.process import ROOT
from mailagent.healthcheck import PORT
from tests.deploy.files import image_command, instructions

SENT = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)


def test_what_is_sent_to_the_build_is_there_and_holds_no_secrets() -> None:
    assert "*" in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert [each for each in SENT if not (ROOT / each).exists()] == []
    assert not {each for each in SENT if each.startswith((".", "tests"))}


def test_what_the_app_reads_at_run_time_is_sent() -> None:
    assert {"mailagent", "templates", "migrations", "wsgi.py", "pyproject.toml"} <= set(SENT)
    scripts = re.findall(r"sh (\S+\.sh)", (ROOT / "dbos-config.yaml").read_text("utf-8"))
    assert {"docs/deploy/dbos-cloud.sh"} == set(scripts) <= set(SENT)


def test_both_stages_have_the_same_python() -> None:
    bases = {each.split()[0] for each in instructions("FROM")}
    assert bases == {"${PYTHON}"}


def test_the_extras_exist() -> None:
    (extras,) = [each for each in instructions("ARG") if each.startswith("EXTRAS=")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras.partition("=")[2].strip('"').split()) <= set(project["optional-dependencies"])


def test_it_does_not_run_as_root() -> None:
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_it_serves_at_the_port_that_is_looked_at() -> None:
    assert f"0.0.0.0:{PORT}" in image_command()
    assert instructions("EXPOSE") == [str(PORT)]
    (check,) = instructions("HEALTHCHECK")
    assert check.endswith('CMD ["python", "-m", "mailagent.healthcheck"]')


# --- requirements ---------------------------------------------------------------------------------


FILES = ("requirements.txt", "tests/requirements.txt", "mailagent/evals/requirements.txt")
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
    runs, tests = map(pinned, FILES[:2])
    assert runs.items() <= tests.items()


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (PROJECT["dependencies"], "requirements.txt"),
        (PROJECT["optional-dependencies"]["test"], "tests/requirements.txt"),
        (PROJECT["optional-dependencies"]["evals"], "mailagent/evals/requirements.txt"),
    ],
    ids=FILES,
)
def test_the_files_are_written_from_the_project(wanted: list[str], name: str) -> None:
    versions = {package: version for package, (version, _) in pinned(name).items()}
    for each in wanted:
        package, version = re.sub(r"\[.*\]", "", each).split("==")
        assert versions[package] == version, f"run .ci/lock: {each}"


# --- development ----------------------------------------------------------------------------------


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_hosted_run_is_the_one_that_people_run() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["run"]["steps"]
    whole = "${{ github.event_name == 'schedule' && '--whole' || '' }}"
    assert [step["run"] for step in steps if "run" in step] == [f".ci/run {whole}"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    uses = [step["uses"] for step in steps if "uses" in step]
    assert uses
    assert all(re.search(r"@v\d+\.\d+\.\d+$", each) for each in uses)


def test_hooks_run_tools_that_the_tests_require() -> None:
    required = (ROOT / "tests" / "requirements.txt").read_text("utf-8")
    packages = {"ruff": "ruff==", "lint-imports": "import-linter=="}
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program = Path(shlex.split(hook["entry"])[0])
        assert program.parent == Path(".venv/bin")
        assert packages[program.name] in required


def test_the_container_has_the_python_and_the_packages_of_the_project() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    asked = re.search(
        r'requires-python = ">=(3\.\d+)', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    assert asked is not None
    assert container["image"].startswith(f"python:{asked[1]}-")
    (file,) = re.findall(r"-r (\S+)", container["postCreateCommand"])
    assert (ROOT / file).is_file()
