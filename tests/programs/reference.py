"""Write docs/reference.md from the code: `python -m tests.programs.reference`.

Settings come from `mailagent.settings`, routes from the app's URL map and the docstrings of the views,
commands from click. `tests/test_readme.py` fails while the file is not what this prints.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

import click
from flask import Flask
from werkzeug.routing import Rule

from mailagent import cli, services
from mailagent.app import ROOT, create_app
from mailagent.settings import SETTINGS

DOCUMENT = ROOT / "docs" / "reference.md"

_HEAD = """\
# Reference

Look up a setting, a route or a command. This page is generated: `python -m tests.programs.reference`.

- [Settings](#settings)
- [Routes](#routes)
- [Commands](#commands)
"""


@contextmanager
def whole_app() -> Iterator[Flask]:
    """Open the app with every route that it can have. Its database is never connected to."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(
            {
                "SECRET_KEY": "a key for tests only",
                "DATABASE_URL": f"sqlite:///{folder}/unused.db",
                "MAILAGENT_DEMO": "http://127.0.0.1:9",
                "ORDERS_API_TOKEN": "a-token-of-the-shop-for-tests-only",
                "METRICS_TOKEN": "a-token-of-those-that-watch-for-tests",
                "STRIPE_WEBHOOK_SECRET": "whsec_for_tests_only",
                "ORDER_SOURCE": "shopify",
                "ORDER_SOURCE_URL": "https://shop.example",
                "ORDER_SOURCE_TOKEN": "a-token-for-tests-only",
                "ORDER_SOURCE_WEBHOOK_SECRET": "a-secret-for-tests-only",
            }
        )
        try:
            yield app
        finally:
            services.current().workflow_client.close()
            services.current().database.close()
            services.bind(None)


def render(app: Flask) -> str:
    """Return the document."""
    parts = [_HEAD, *_settings(), *_routes(app), *_commands()]
    return "\n".join(parts).rstrip() + "\n"


def _settings() -> Iterator[str]:
    yield (
        "## Settings\n\nAll settings are environment variables. At start every wrong one is listed, each "
        "with what to do; `flask check` lists them, too.\n"
    )
    for group, settings in groupby(SETTINGS, key=lambda each: each.group):
        yield f"### {group}\n\n| name | default | meaning |\n|---|---|---|"
        for each in settings:
            # Links in descriptions start at the repository's root.
            meaning = each.meaning.replace("](docs/", "](")
            yield f"| `{each.name}` | {each.default} | {meaning} |"
        yield ""


def _routes(app: Flask) -> Iterator[str]:
    yield (
        "## Routes\n\nA process with `MAILAGENT_ROLE=worker` serves none. Some are there only if their "
        "setting is: `/webhooks/stripe`, `/webhooks/orders/…`, `/metrics`, `/api/…`.\n\n"
        "| route | who may | what |\n|---|---|---|"
    )
    for rule in sorted(app.url_map.iter_rules(), key=lambda each: (each.rule, each.endpoint)):
        if rule.rule == "/" or rule.rule.startswith("/demo/"):
            continue
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield f"| `{method} {rule.rule}` | {_guard(app, rule)} | {_purpose(app, rule)} |"
    yield ""


def _guard(app: Flask, rule: Rule) -> str:
    view = app.view_functions[rule.endpoint]
    permission = getattr(view, "permission", None)
    guard = getattr(view, "guard", "open")
    return f"login, may {permission.value}" if permission else str(getattr(guard, "value", guard))


def _purpose(app: Flask, rule: Rule) -> str:
    if rule.endpoint == "static":
        return "Style sheets and scripts of the pages."
    return _first_paragraph(app.view_functions[rule.endpoint].__doc__)


def _commands() -> Iterator[str]:
    yield (
        "## Commands\n\nRun them from the repository's root, with `.venv/bin/` in front or the virtual "
        "environment activated. Each has `--help`.\n\n| command | what |\n|---|---|"
    )
    for path, command in sorted(_leaves(click.Group(commands=cli.load_all()), "flask")):
        usage = " ".join([path, *filter(None, map(_usage, command.params))])
        yield f"| `{usage}` | {_first_paragraph(command.help)} |"


def _leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _leaves(each, f"{path} {name}")
    else:
        yield path, command


def _usage(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.make_metavar(click.Context(click.Command("x")))
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return ""
    name = max(parameter.opts, key=len)
    value = "" if parameter.is_flag else f" {(parameter.name or '').upper()}"
    usage = f"{name}{value}"
    return usage if parameter.required else f"[{usage}]"


def _first_paragraph(text: str | None) -> str:
    paragraph = (text or "").strip().split("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph).replace("|", "\\|")


@click.command()
def main() -> None:
    """Write docs/reference.md from the code."""
    with whole_app() as app:
        DOCUMENT.write_text(render(app), "utf-8")


if __name__ == "__main__":
    main()
