"""A Prometheus server of our own that scrapes one web process, with the alerts and recorded rules as the
repository has them; and the questions that it is asked."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx2

from mailagent.demo.show import find_port
from tests.processes import base_environment
from tests.programs.watched.board import RULE_FILES

SCRAPE_SECONDS = 2
EVALUATE_SECONDS = 3
_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_MISSING = (
    "there is no `prometheus` on PATH or beside this Python. `apt-get install prometheus` brings it. For that"
    " one file only: `apt-get download prometheus`, then\n  dpkg-deb --fsys-tarfile prometheus_*.deb"
    " | tar --extract --directory .venv --strip-components 2 ./usr/bin/prometheus"
)


class QueryFailed(Exception):
    """Prometheus did not take a query; the text is its own."""


@dataclass(frozen=True, slots=True)
class Series:
    """`points`: seconds since 1970, and the value."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Prometheus:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=url, timeout=30, trust_env=False)

    def ask(self, query: str) -> list[Series]:
        """Return what a query yields now. Raises QueryFailed."""
        return _parse(self._get("/api/v1/query", query=query))

    def ask_over(self, query: str, began: float, ended: float, step: float) -> list[Series]:
        """Return what it yielded from one time to another. Raises QueryFailed."""
        path = "/api/v1/query_range"
        return _parse(self._get(path, query=query, start=began, end=ended, step=step))

    def rules(self) -> list[dict[str, Any]]:
        groups = self._get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def is_ready(self) -> bool:
        try:
            return self._client.get("/-/ready").is_success
        except httpx2.HTTPError:
            return False

    def _get(self, path: str, **asked: str | float) -> Any:
        return self._client.get(
            path, params=asked
        ).json()  # a query that is wrong gets a 400 with JSON


def _parse(answer: Mapping[str, Any]) -> list[Series]:
    """Return the series of an answer without those that never were a number (0 / 0 is none).

    Raises QueryFailed.
    """
    if answer["status"] != "success":
        raise QueryFailed(answer.get("error", "Prometheus does not say why"))
    data = answer["data"]
    if data["resultType"] == "scalar":
        found = [Series({}, _numbers([data["result"]]))]
    else:
        found = [
            Series(each["metric"], _numbers(each.get("values") or [each["value"]]))
            for each in data["result"]
        ]
    return [each for each in found if each.points]


def _numbers(pairs: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    points = ((float(at), float(value)) for at, value in pairs)
    return tuple((at, value) for at, value in points if math.isfinite(value))


def find_program() -> str:
    """Return where Prometheus is. Raises ClickException, which says how to get it."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("prometheus") or shutil.which("prometheus", path=beside)
    if found is None:
        raise click.ClickException(_MISSING)
    return found


def version_of(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).split()[2]


@contextmanager
def run(program: str, folder: Path, port: int, token: str) -> Iterator[Prometheus]:
    """Run a server that scrapes the web process at `port` until the end of this."""
    folder.mkdir()
    config = folder / "prometheus.json"
    config.write_text(json.dumps(_config(folder, port, token)), "utf-8")
    own = find_port(0)
    arguments = [
        *(program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{own}", "--log.level=warn"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=base_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        server = Prometheus(f"http://127.0.0.1:{own}")
        _wait(process, server, folder / "log")
        yield server
    finally:
        _stop(process)


def _config(folder: Path, port: int, token: str) -> dict[str, Any]:
    """Return the configuration; JSON is YAML, too."""
    secret = folder / "token"
    secret.write_text(token, "utf-8")
    job = {
        "job_name": "mailagent",
        "authorization": {"credentials_file": str(secret)},
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    return {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": f"{SCRAPE_SECONDS}s",
            "evaluation_interval": f"{EVALUATE_SECONDS}s",
        },
        "rule_files": [str(file) for file in RULE_FILES],
        "scrape_configs": [job],
    }


def _wait(process: subprocess.Popen[bytes], server: Prometheus, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not server.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text("utf-8", "replace")[-2000:]
            raise click.ClickException(f"Prometheus does not run:\n{said}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
