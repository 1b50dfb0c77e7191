"""The app for `flask …` and for gunicorn (`gunicorn -c python:mailagent.serving wsgi:app`)."""

from __future__ import annotations

import sys

from mailagent.app import configure_logging, create_app
from mailagent.settings import SettingsProblem

configure_logging()
try:
    app = create_app()
except SettingsProblem as problem:
    print(problem, file=sys.stderr)  # noqa: T201 - before there is an app there is no other way to say it
    sys.exit(1)
