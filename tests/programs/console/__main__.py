"""Measure how long the console's pages take with a million mails: `python -m tests.programs.console`.

The time is that of Flask's test client: everything but the network and gunicorn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
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
from tests.programs.console.fill import COMMON, RARE, UNCOMMON, Size, fill

TARGET_MS = 100
METRICS_TOKEN = "the-token-of-those-that-watch-for-this-program"


def pages(size: Size) -> Mapping[str, str]:
    """Return the pages to measure, by what they are."""
    some = f"{size.conversations // 2:026}"
    return {
        "inbox": "/ops",
        "waiting for a manager": "/ops?waiting=approvals",
        "waiting for Mona": f"/ops?waiting=approvals&manager={MONA}",
        "waiting for Max, newest first": f"/ops?waiting=approvals&manager={MAX}&order=newest",
        "waiting for a manager, last page": "/ops?waiting=approvals&newer=1790000000000000~x",
        "drafts": "/ops?waiting=drafts",
        "with the team": "/ops?waiting=people",
        "with the team, nobody's": "/ops?waiting=people&owner=nobody",
        "throttled": "/ops?waiting=throttled",
        "failed": "/ops?waiting=failed",
        "undelivered": "/ops?waiting=undelivered",
        "undelivered, with what was dismissed": "/ops?waiting=undelivered&shown=all",
        "without an answer": "/ops?waiting=unanswered",
        "conversations": "/ops/conversations",
        "conversations, far back": "/ops/conversations?view=pending&older=1770000000000000~x",
        "conversations: mine": "/ops/conversations?view=pending&owner=mine",
        "conversations: nobody's, closed": "/ops/conversations?view=closed&owner=nobody",
        "conversations: a common tag": "/ops/conversations?view=pending&tag=parcel",
        "conversations: a rare tag": "/ops/conversations?view=closed&tag=tag+7",
        "conversations: snoozed": "/ops/conversations?view=snoozed",
        "search: an address": f"/ops/search?q=customer{size.conversations // 4}%40mail.example",
        "search: the beginning of addresses": "/ops/search?q=customer1&kind=conversations",
        "search: a domain of half the shop": "/ops/search?q=%40mail.example",
        "search: a name": "/ops/search?q=Customer+77777&kind=conversations",
        "search: a name of everyone": "/ops/search?q=Customer&kind=conversations",
        "search: an order": f"/ops/search?q=W{size.approvals}",
        "search: a word in one mail": f"/ops/search?q={RARE}",
        "search: a word in some mails": "/ops/search?q=word19000",
        "search: two words": "/ops/search?q=word3000+word19000",
        "search: a word in every tenth": f"/ops/search?q={UNCOMMON}",
        "search: a word in every mail": f"/ops/search?q={COMMON}",
        "search: two in every mail": f"/ops/search?q={COMMON}+hello",
        "search: common and rare": f"/ops/search?q={COMMON}+{RARE}",
        "search: common, a month, oldest": (
            f"/ops/search?q={COMMON}&from=2026-03-01&to=2026-03-31&order=oldest"
        ),
        "search: all mail, far back": "/ops/search?kind=mails&older=1770000000000000~x",
        "search: refunds that expired": "/ops/search?kind=refunds&state=expired",
        "a conversation": f"/ops/conversations/conversation_{some}",
        "a refund": f"/ops/refunds/refund_{size.approvals:026}",
        "a customer": f"/ops/customers/customer{size.conversations // 4}@mail.example",
        "tasks": "/ops/tasks",
        "tasks, done": "/ops/tasks?state=ended",
        "tasks, done, far back": "/ops/tasks?state=ended&older=1770000000000000~x",
        "settlements": "/ops/settlements",
        "settlements, paid": "/ops/settlements?state=settled",
        "report": "/ops/report?days=90",
        "report, a year": "/ops/report?from=2025-12-01&to=2026-11-30",
        "knowledge": "/ops/knowledge",
        "comparisons": "/ops/comparisons?source=shadow",
        "model": "/ops/model",
        "runs": "/ops/runs",
        "runs that failed": "/ops/runs?status=failed",
        "runs about a conversation": f"/ops/runs?about=conversation_{some}",
        "replays": "/ops/replays",
        "refund by the team": f"/ops/conversations/conversation_{some}/refund/W{size.conversations // 2}",
        "saved replies": "/ops/saved-replies",
        "audit": "/ops/audit",
        "audit: of a person": f"/ops/audit?actor={TESS}",
        "audit: an act, from the beginning": "/ops/audit?action=dismissed&order=oldest",
        "audit: a row": f"/ops/audit?subject=mail_{some}",
        "live": "/ops/live?since=1780000000000000",
        "metrics, all counted anew": "/metrics",
    }


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
    app.extensions[metrics.CACHE] = metrics.CachedSamples(0)
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
        click.echo(f"{'ms of server time':<38}{'p50':>8}{'p95':>8}")
        slow = [name for name, path in pages(size).items() if _measure(client, name, path, times)]
        click.echo(f"above {TARGET_MS} ms: {', '.join(slow) or 'none'}")


def _measure(client: FlaskClient, name: str, path: str, times: int) -> bool:
    """Print how long one page takes; return whether it is too slow."""
    client.get(path)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        status = client.get(path).status_code
        taken.append((time.perf_counter() - began) * 1000)
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    click.echo(f"{name:<38}{p50:>8.1f}{p95:>8.1f}{status:>6}")
    return p95 > TARGET_MS


if __name__ == "__main__":
    main()
