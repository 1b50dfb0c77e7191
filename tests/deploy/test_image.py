"""The image: what goes in, who it runs as, and that its parts fit."""

from __future__ import annotations

import re
import tomllib

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
    assert set(scripts) <= set(SENT)


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
