"""The two modes of `flask demo`: the story in the terminal, and the page. Each starts the providers and the
app, and stops them at the end."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import AppWillNotStart, DemoFolder, Supervisor
from mailagent.demo.story import FactMissing, Story

DEFAULT_PORT = 8000
# Long enough for people to watch the steps and the crash.
_MODEL_SECONDS = 0.7
_DEAD_SECONDS = 3.0


class PortBusy(Exception):
    """The port cannot be used; the text says what to do."""


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


def tell_story(port: int) -> None:
    """Tell and check the story in a temporary folder. Raises FactMissing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mailagent-demo-") as path:
        folder = DemoFolder(Path(path))
        with _running(folder, port, model_seconds=0, dead_seconds=0) as (providers, supervisor):
            story = Story(folder, providers, supervisor, click.echo)
            try:
                story.run()
            except FactMissing as missing:
                log = "\n".join(folder.app_log.read_text("utf-8", "replace").splitlines()[-30:])
                click.echo(
                    f"  ✗ {missing}\n\nThe story broke here. The end of the log:\n{log}", err=True
                )
                raise
    seconds = time.monotonic() - began
    click.echo(f"\nAll {story.facts} facts hold. It took {seconds:.0f} s.")


def run_page(port: int, path: Path, fresh: bool) -> None:
    """Serve the demo's page from the folder at `path` until it is interrupted."""
    folder = DemoFolder(path)
    if fresh:
        folder.clear()
    with _running(folder, port, _MODEL_SECONDS, _DEAD_SECONDS) as (providers, supervisor):
        click.echo(f"\n  Open {providers.app_url}/demo/   (Ctrl-C ends the demo)\n")
        while supervisor.failure is None:
            time.sleep(0.5)
        raise AppWillNotStart(supervisor.failure)


@contextmanager
def _running(
    folder: DemoFolder, port: int, model_seconds: float, dead_seconds: float
) -> Iterator[tuple[Providers, Supervisor]]:
    providers = Providers(folder, port, os.environ, model_seconds)
    supervisor = Supervisor(folder, port, providers.environment(), click.echo, dead_seconds)
    if providers.uses_real_model:
        click.echo(f"The model is real ({providers.model_name}); the mail stays on this machine.")
    else:
        click.echo(
            "The model is scripted and the mail stays on this machine. "
            "With OPENAI_API_KEY set, a real model answers."
        )
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
        folder.release()
