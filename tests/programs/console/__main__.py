"""Measure how long the console's pages take with a million mails: `python -m tests.programs.console`.

The time is that of Flask's test client: everything but the network and gunicorn.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import click
from flask import Flask
from flask.testing import FlaskClient

from mailagent import services
from mailagent.app import create_app
from mailagent.store.console import sessions
from mailagent.web import metrics
from mailagent.web.guard import SESSION_KEY
from mailagent.workflows.recovery import update_counters
from tests.cast import MAX, MONA, OLGA, TESS
from tests.databases import postgres_copy, postgres_server, postgres_template
from tests.programs.console.fill import Size, fill
from tests.programs.console.pages import pages

TARGET_MS = 100
FILE = ", file"  # how the names of those end
METRICS_TOKEN = "the-token-of-those-that-watch-for-this-program"


def log_in(app: Flask, email: str = OLGA) -> FlaskClient:
    """Return a client in which somebody is logged in."""
    secret, now = sessions.new_secret(), datetime.now(UTC)
    with services.current().database.transaction() as connection:
        sessions.begin(connection, secret, email, now, now + timedelta(hours=9))
    client = app.test_client()
    with client.session_transaction() as cookies:
        cookies[SESSION_KEY] = secret
    return client


@contextmanager
def console(database_url: str) -> Iterator[FlaskClient]:
    """Open the console on a filled database, for somebody who sees all of it."""
    app = create_app(
        {
            "DATABASE_URL": database_url,
            "SECRET_KEY": "a key for this program only",
            "MANAGER_EMAILS": f"{MONA},{MAX},{OLGA}",
            "TEAM_EMAILS": f"{TESS},{OLGA}",
            "OPS_EMAILS": OLGA,
            "MAILAGENT_ROLE": "web",
            "METRICS_TOKEN": METRICS_TOKEN,
        }
    )
    metrics.CACHE_SECONDS = 0
    gc.freeze()  # as serving.py does
    client = log_in(app)
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {METRICS_TOKEN}"
    try:
        yield client
    finally:
        services.current().workflow_client.close()
        services.current().database.close()
        services.bind(None)


@click.command()
@click.option("--mails", default=1_000_000, show_default=True, type=click.IntRange(min=1000))
@click.option("--times", default=30, show_default=True, help="How often each page is asked for.")
def main(mails: int, times: int) -> None:
    """Fill a database with mail and measure the console's pages on it."""
    size = Size(mails, mails // 10, mails // 100)
    with (
        postgres_server() as server,
        postgres_template(server) as template,
        postgres_copy(server, template) as url,
        console(url) as client,
    ):
        began = time.perf_counter()
        fill(services.current().database.engine, size)
        update_counters()
        click.echo(f"{mails:,} mails, filled in {time.perf_counter() - began:.0f} s")
        click.echo(f"{'ms of server time':<38}{'p50':>8}{'p95':>8}{'HTTP':>6}")
        slow = [
            name
            for name, path in pages(size, client).items()
            if _measure(client, name, path, times)
        ]
        click.echo(f"pages above {TARGET_MS} ms, files apart: {', '.join(slow) or 'none'}")


def _measure(client: FlaskClient, name: str, path: str, times: int) -> bool:
    """Print how long one page takes; return whether it is too slow. A file may take longer."""
    client.get(path)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        status = client.get(path).status_code
        taken.append((time.perf_counter() - began) * 1000)
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    click.echo(f"{name:<38}{p50:>8.1f}{p95:>8.1f}{status:>6}")
    return p95 > TARGET_MS and not name.endswith(FILE)


if __name__ == "__main__":
    main()
