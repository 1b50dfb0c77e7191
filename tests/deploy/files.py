"""The deployment files, read: each process that they start, with its environment and its time to end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.demo.process import ROOT

UNITS = ROOT / "docs" / "deploy" / "systemd"
MANIFESTS = ROOT / "docs" / "deploy" / "kubernetes"


@dataclass(frozen=True, slots=True)
class Started:
    """A process of the app as a platform starts it. `grace_seconds`: from SIGTERM to SIGKILL."""

    name: str
    command: tuple[str, ...]
    environment: frozenset[str]
    grace_seconds: float

    @property
    def runs_on(self) -> bool:
        """Whether it is one that is asked to end some day, and not a command."""
        return self.command[0] == "gunicorn" or self.command[:2] == ("flask", "worker")


def instructions(name: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, each time that it stands there."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text("utf-8"))
    return re.findall(rf"^{name}\s+(.+)$", text, re.MULTILINE)


def documents(path: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


def compose() -> dict[str, Any]:
    (found,) = documents(ROOT / "compose.yaml")
    return dict(found)


def manifests() -> list[dict[str, Any]]:
    """Return every object of the manifests."""
    return [
        each
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        if path.name != "kustomization.yaml"
        for each in documents(path)
    ]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each pod's template, with the name of what makes it."""
    for each in manifests():
        spec = each.get("spec", {})
        if template := spec.get("jobTemplate", {}).get("spec", spec).get("template"):
            yield each["metadata"]["name"], template


def given_whole(container: dict[str, Any]) -> list[dict[str, str]]:
    """Return each ConfigMap and Secret that a container takes as its environment."""
    names = {
        (kind.removesuffix("Ref").lower(), reference["name"])
        for source in container.get("envFrom", [])
        for kind, reference in source.items()
    }
    return [
        each.get("data", {}) | each.get("stringData", {})
        for each in manifests()
        if (each["kind"].lower(), each["metadata"]["name"]) in names
    ]


def unit(path: Path) -> list[tuple[str, str]]:
    """Return the settings of a unit, those of the drop-in for all of ours included."""
    drop_in = UNITS / "mailagent-.service.d" / "hardening.conf"
    lines = (path.read_text("utf-8") + drop_in.read_text("utf-8")).splitlines()
    pairs = (line.partition("=") for line in lines if re.match(r"\w+=", line))
    return [(name, value) for name, _, value in pairs]


def started() -> list[Started]:
    """Return every process of the app that the files start."""
    return [*_by_compose(), *_by_systemd(), *_by_kubernetes()]


def image_command() -> list[str]:
    (command,) = instructions("CMD")
    return [str(word) for word in yaml.safe_load(command)]


def image_environment() -> frozenset[str]:
    return frozenset(re.findall(r"(\w+)=", " ".join(instructions("ENV"))))


def _by_compose() -> Iterator[Started]:
    named = re.findall(r"^#?(\w+)=", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE)
    for name, service in compose()["services"].items():
        if service["image"] == "mailagent":
            yield Started(
                f"compose: {name}",
                tuple(service.get("command", image_command())),
                frozenset(service["environment"]) | image_environment() | set(named),
                float(service["stop_grace_period"].removesuffix("s")),
            )


def _by_systemd() -> Iterator[Started]:
    for path in sorted(UNITS.glob("*.service")):
        settings = unit(path)
        assigned = [shlex.split(value) for name, value in settings if name == "Environment"]
        (command,) = (shlex.split(value) for name, value in settings if name == "ExecStart")
        graces = [float(value) for name, value in settings if name == "TimeoutStopSec"]
        yield Started(
            f"systemd: {path.name}",
            (Path(command[0]).name, *command[1:]),
            frozenset(each.partition("=")[0] for words in assigned for each in words),
            graces[0] if graces else 90.0,  # systemd's own
        )


def _by_kubernetes() -> Iterator[Started]:
    for name, pod in pods():
        (container,) = pod["spec"]["containers"]
        if name == "mailagent-restore":  # starts nothing: an operator runs commands in it
            continue
        before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        yield Started(
            f"kubernetes: {name}",
            tuple(container.get("command", image_command())),
            frozenset(each["name"] for each in container["env"])
            | image_environment()
            | {name for each in given_whole(container) for name in each},
            pod["spec"].get("terminationGracePeriodSeconds", 30)
            - (float(before[-1]) if before else 0),
        )


EXAMPLE = dict(
    re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE)
)


def filled_in(folder: Path) -> dict[str, str]:
    """Return the example as a shop fills it in."""
    public = WebhookKey(folder / "key.pem").public_text()
    keys = {name: public for name in EXAMPLE if name.endswith("_PUBLIC_KEY")}
    keys["OPENAI_DAILY_BUDGET"] = "none"
    made = keys | dict.fromkeys(("SECRET_KEY", "METRICS_TOKEN"), "kD3v-Qz81_hT0sWnRyX5bJmEo7uLcAfG")
    return {
        name: made.get(name) or value.replace(".example", ".test") or "x"
        for name, value in EXAMPLE.items()
    }
