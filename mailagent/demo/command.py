"""The `flask demo` command. It imports `show` only when it runs, to keep other commands fast."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask import current_app
from flask.cli import with_appcontext

if TYPE_CHECKING:  # pydantic loads with it
    from mailagent.settings import Settings


FOLDER = Path(".mailagent-demo")


@click.command("demo")
@with_appcontext
@click.option("--once", is_flag=True, help="Tell the story without a browser, check it, and end.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port of the app; 0 picks a free one.  [default: 8000, or a free one when it is taken]",
)
@click.option("--fresh", is_flag=True, help=f"Delete what earlier demos left in {FOLDER}.")
def demo(once: bool, port: int | None, fresh: bool) -> None:
    """Show mailagent at work on this machine. A small shop, its customers and a manager are played."""
    from mailagent.demo import show
    from mailagent.demo.process import AppWillNotStart, CommandFailed, FolderInUse
    from mailagent.demo.story import FactMissing

    for number in (signal.SIGTERM, signal.SIGHUP):  # end like Ctrl-C, which also stops the app
        signal.signal(number, signal.default_int_handler)
    try:
        # Loading the app has made a key file. The demo's app has a key in its own folder.
        settings: Settings = current_app.config["MAILAGENT"]
        if settings.made_key_file is not None:
            settings.made_key_file.unlink(missing_ok=True)
        found = show.find_default_port() if port is None else show.find_port(port)
        if once:
            show.tell_story(found)
        else:
            show.run_page(found, FOLDER, fresh)
    except FactMissing:
        sys.exit(1)  # the story has printed the fact
    except (FolderInUse, CommandFailed, AppWillNotStart, show.PortBusy) as problem:
        click.echo(str(problem), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("Stopped.")
        sys.exit(130 if once else 0)
