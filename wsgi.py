"""The app for `flask …` and for gunicorn (`gunicorn -c python:mailagent.serving wsgi:app`)."""

from __future__ import annotations

import atexit
import gc
import os
import sys

import click
from flask import Flask

from mailagent import cli
from mailagent.telemetry import log_lines


def _make_command_app() -> Flask:
    """Return an app without pages, whose settings and services are made when a command runs."""
    app = Flask("mailagent")

    def prepare(command: str) -> None:
        from mailagent.bootstrap import prepare_command

        prepare_command(app, command)

    cli.register(app, prepare)
    atexit.register(
        gc.freeze
    )  # otherwise Python would spend 0.1 s on collecting all modules at the end
    return app


def _make_web_app() -> Flask:
    from mailagent.app import create_app
    from mailagent.settings import SettingsProblem

    try:
        return create_app()
    except SettingsProblem as problem:
        click.echo(problem, err=True)
        sys.exit(1)


log_lines.configure(log_lines.format_of(os.environ))
# Flask's own commands, such as `flask routes`, need the pages.
_is_command = click.get_current_context(silent=True) and not {"run", "routes", "shell"} & set(
    sys.argv
)
app = _make_command_app() if _is_command else _make_web_app()
