"""The files for people who work on the project name commands and files that exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_hosted_run_is_the_one_that_people_run() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    uses = [step["uses"] for step in steps if "uses" in step]
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
