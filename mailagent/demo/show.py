"""`flask demo`: tells the story in the terminal, or serves the page. Everything that it makes is in a temporary
folder and is removed at the end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import AppWillNotStart, CommandFailed, Supervisor
from mailagent.demo.story import FactMissing, Story
from mailagent.settings import SettingsProblem, load_settings

DEFAULT_PORT = 8000
# Long enough for people to watch the steps and the crash.
_MODEL_SECONDS = 0.7
_DEAD_SECONDS = 3.0
# Long enough to press "Take it back", and short enough to see the money go out.
_UNDO_SECONDS = 10


class PortBusy(Exception):
    """The port cannot be used; the text says what to do."""


@click.command("demo")
@click.option("--once", is_flag=True, help="Tell the story without a browser, check it, and end.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port of the app; 0 picks a free one.  [default: 8000, or a free one when it is taken]",
)
def demo(once: bool, port: int | None) -> None:
    """Show mailagent at work on this machine. A small shop, its customers and a manager are played."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # end like Ctrl-C, which also stops the app
        signal.signal(number, signal.default_int_handler)
    try:
        found = find_default_port() if port is None else find_port(port)
        with tempfile.TemporaryDirectory(prefix="mailagent-demo-") as path:
            (_tell_story if once else _serve_page)(Path(path), found)
    except SettingsProblem as problem:
        click.echo(str(problem), err=True)
        sys.exit(2)
    except FactMissing:
        sys.exit(1)  # the story has printed the fact
    except (CommandFailed, AppWillNotStart, PortBusy) as problem:
        click.echo(str(problem), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("Stopped.")
        sys.exit(130 if once else 0)


def find_default_port() -> int:
    """Return the default port, or a free one if it is taken."""
    try:
        return find_port(DEFAULT_PORT)
    except PortBusy:
        free = find_port(0)
        click.echo(f"Port {DEFAULT_PORT} is taken, so the demo uses {free}.")
        return free


def find_port(port: int) -> int:
    """Return `port`, or a free one for 0. Raises PortBusy."""
    with socket.socket() as probe:
        # Like gunicorn: a port that was released a moment ago can be used.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            raise PortBusy(
                f"Port {port} of 127.0.0.1 cannot be used ({problem.strerror}). "
                "Stop what runs there, choose another with --port, or leave --port out."
            ) from problem
        return int(probe.getsockname()[1])


def _tell_story(folder: Path, port: int) -> None:
    began = time.monotonic()
    with _running(folder, port, model_seconds=0, dead_seconds=0) as (providers, supervisor):
        story = Story(folder, providers, supervisor, click.echo)
        try:
            story.run()
        except FactMissing as missing:
            log = "\n".join(supervisor.log.read_text("utf-8", "replace").splitlines()[-30:])
            told = f"  ✗ {missing}\n\nThe story broke here. The end of the log:\n{log}"
            click.echo(told, err=True)
            raise
    seconds = time.monotonic() - began
    click.echo(f"\nAll {story.facts} facts hold. It took {seconds:.0f} s.")


def _serve_page(folder: Path, port: int) -> None:
    running = _running(folder, port, _MODEL_SECONDS, _DEAD_SECONDS, _UNDO_SECONDS)
    with running as (providers, supervisor):
        click.echo(f"\n  Open {providers.app_url}/demo/   (Ctrl-C ends the demo)\n")
        while supervisor.failure is None:
            time.sleep(0.5)
        raise AppWillNotStart(supervisor.failure)


@contextmanager
def _running(
    folder: Path, port: int, model_seconds: float, dead_seconds: float, undo_seconds: int = 0
) -> Iterator[tuple[Providers, Supervisor]]:
    providers = Providers(folder, port, os.environ, model_seconds)
    environment = providers.environment() | {"APPROVAL_UNDO_SECONDS": str(undo_seconds)}
    load_settings(environment)
    supervisor = Supervisor(folder, port, environment, click.echo, dead_seconds)
    if providers.uses_real_model:
        click.echo("The model is real; the mail stays on this machine.")
    else:
        click.echo(
            "The model is scripted and the mail stays on this machine. "
            "With OPENAI_API_KEY set, a real model answers."
        )
    for sentence in providers.tell_settings():
        click.echo(sentence)
    providers.start()
    try:
        supervisor.prepare()
        supervisor.start()
        yield providers, supervisor
    finally:
        # A second Ctrl-C would leave the app running without a supervisor.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        supervisor.stop()
        providers.stop()
