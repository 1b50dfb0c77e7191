"""Load a shop, break its processes, database and providers, wait, and check the promises:
`python -m tests.programs.soak`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from mailagent.store.database import Database, open_database
from tests.cast import MAX, MONA, TESS
from tests.harness import shop_settings
from tests.processes import Web, Worker, base_environment
from tests.programs.proof import Rows, write_results
from tests.programs.soak.chaos import Chaos
from tests.programs.soak.checker import find_damage, find_shortage
from tests.programs.soak.evidence import Evidence, read_evidence
from tests.programs.soak.people import People
from tests.programs.soak.providers import Providers
from tests.programs.soak.server import OwnServer, own_server
from tests.programs.soak.story import Damage
from tests.programs.soak.take_overs import count_left

WEBS, WORKERS = 2, 3
REST_SECONDS = 900.0
MAILS_PER_SECOND = 1.5
# Longer than a worker is ever stopped: one that holds a mail for longer than this may send it again.
MAIL_OUTCOME_SECONDS = 60
_TAKEN = re.compile(r"took over (\d+) runs")
_NOT_AT_REST = (
    "SELECT (SELECT count(*) FROM inbound_mails WHERE status IN ('unanswered', 'throttled'))"
    " + (SELECT count(*) FROM outbound_mails WHERE status IN ('queued', 'sending'))"
    " + (SELECT count(*) FROM refunds WHERE status IN ('awaiting_approval', 'approved'))"
    " + (SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
    " AND name NOT IN ('sweep', 'housekeeping', 'previews'))"
)


FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long there are faults.")
@click.option("--seed", default=int(time.time()), help="Of everything random.")
@click.option("--json", "json_file", type=FILE, help="Write the figures to this file, too.")
def soak(minutes: float, seed: int, json_file: Path | None) -> None:
    """Soak the app; exit with 1 if a promise was broken, or too little was tried."""
    click.echo(f"seed {seed}", err=True)
    folder = Path(tempfile.mkdtemp(prefix="mailagent-soak-"))
    with own_server() as server, _harness(folder, server, seed) as harness:
        data = harness.play(minutes)
    click.echo(table([data]))
    for each in data["wrong"]:
        click.echo(each)
    write_results(json_file, [data])
    if data["wrong"]:
        sys.exit(f"the logs are in {folder}")
    shutil.rmtree(folder, ignore_errors=True)


def table(rows: Rows) -> str:
    """Return the table of the figures of one soak."""
    lines = (f"| {name} | {figure} |" for name, figure in rows[0]["figures"].items())
    return "\n".join(["| what | figure |", "|---|---|", *lines])


class SoakHarness:
    """Everything that takes part."""

    def __init__(self, folder: Path, server: OwnServer, seed: int) -> None:
        self._server, self._seed = server, seed
        self.providers = Providers(folder, seed)
        self.database: Database = open_database(server.url)
        self.webs: list[Web] = []
        self.people = People(folder, self.webs, self.providers, self.database, seed)
        environment = self._environment()
        self.webs += [Web(f"web-{n}", environment, folder) for n in range(1, WEBS + 1)]
        self.workers = [Worker(f"worker-{n}", environment, folder) for n in range(1, WORKERS + 1)]

    def _environment(self) -> dict[str, str]:
        return {
            **base_environment(),
            **shop_settings(
                self._server.url,
                self.providers.openai.url,
                self.providers.sendgrid.url,
                self.people.inbound,
                self.people.events,
            ),
            "OPS_EMAILS": "",
            "MAILS_PER_HOUR": "10000000",  # all come from one domain
            "PAYMENT_GATEWAY": "stripe",
            "STRIPE_API_KEY": "sk_test_17",
            "STRIPE_API_BASE": self.providers.stripe.url,
            "MAIL_OUTCOME_SECONDS": str(MAIL_OUTCOME_SECONDS),
        }

    def play(self, minutes: float) -> dict[str, Any]:
        """Load and break for so long, let all come to rest, and return the figures and what is wrong."""
        processes: list[Web | Worker] = [*self.webs, *self.workers]
        for process in processes:
            process.start_and_wait()
        left = partial(count_left, self.database)
        chaos = Chaos(self.workers, self.webs, self._server, self._seed, self.people.story, left)
        self.people.start(MAILS_PER_SECOND)
        chaos.start()
        self._tell_of_time(minutes * 60)
        self.people.stop_writing()
        self.providers.dice.on = False
        chaos.stop()
        settled_after = self._rest()
        self.people.stop()
        seen = self._evidence()
        faults = {**chaos.faults, **self.providers.dice.thrown}
        findings = find_damage(seen)
        shortage = find_shortage(minutes, MAILS_PER_SECOND, seen, faults)
        broken = Counter(finding.damage for finding in findings)
        figures = {
            "length": f"{minutes:g} minutes, then {settled_after:.0f} s to rest",
            **self._figures(seen, chaos),
            **{damage.value: broken[damage] for damage in Damage},
            "machine": _list(self._machine()),
        }
        wrong = [*(f"{finding.damage}: {finding.what}" for finding in findings), *shortage]
        return {"figures": figures, "wrong": wrong}

    def _tell_of_time(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            left, story = until - time.monotonic(), self.people.story
            click.echo(f"{left:.0f} s left, {len(story.accepted)} mails accepted", err=True)
            time.sleep(min(15.0, max(0.0, left)))

    def _rest(self) -> float:
        """Wait until nothing waits any more, or patience ends; return how long it took."""
        began, told = time.monotonic(), 0.0
        while time.monotonic() - began < REST_SECONDS:
            with self.database.snapshot() as connection:
                left = connection.scalar(sa.text(_NOT_AT_REST)) or 0
            if left == 0 and self.people.at_rest:
                break
            if time.monotonic() - told > 15:
                click.echo(f"{left} things left", err=True)
                told = time.monotonic()
            time.sleep(1)
        return time.monotonic() - began

    def _evidence(self) -> Evidence:
        stripe = self.providers.stripe
        return read_evidence(
            self.database,
            self.people.story,
            self.providers.mailboxes.sent(),
            stripe.refunds,
            stripe.payments,
            frozenset({MONA, MAX}),
            frozenset({TESS}),
        )

    def _figures(self, seen: Evidence, chaos: Chaos) -> dict[str, Any]:
        counter, thrown = self.people.counter, self.providers.dice.thrown
        states = Counter(mail.status for mail in seen.inbound)
        answers = sorted(self._answer_seconds()) or [0.0]
        taken = [int(count) for each in self.workers for count in _TAKEN.findall(each.said())]
        slowest = max((each.seconds for each in seen.story.take_overs if each.runs), default=0.0)
        mails = f"{counter.mails.total()} ({_list(counter.mails)})"
        return {
            "mails written": mails,
            "posted again after 503 or no answer": counter.redelivered,
            "posted once too often": counter.duplicates,
            "stored and thanked for": len(seen.story.accepted),
            "answered": states["answered"],
            "without an answer of the agent's, with the reason": states["no_answer"],
            "refunds": _list(Counter(refund.status for refund in seen.refunds)),
            "mails of ours": _list(Counter(mail.status for mail in seen.ours)),
            "clicks of managers": counter.clicks,
            "faults of processes and the database": _list(chaos.faults),
            "faults of providers": _list(thrown),
            "faults in all": chaos.faults.total() + thrown.total(),
            "runs taken over from workers that had vanished": sum(taken),
            "slowest take-over after a kill": f"{slowest:.0f} s",
            "slowest end after SIGTERM": f"{chaos.slowest_end_seconds:.1f} s",
            "answer: median, slowest": f"{statistics.median(answers):.1f} s, {answers[-1]:.0f} s",
        }

    def _machine(self) -> dict[str, Any]:
        with self.database.snapshot() as connection:
            postgresql = str(connection.scalar(sa.text("SHOW server_version")))
        return {
            "cores": os.cpu_count(),
            # How many processes wanted to run at once: far above the cores, being slow says nothing.
            "load": round(os.getloadavg()[1]),
            "Python": platform.python_version(),
            "PostgreSQL": postgresql,
            **{name: version(name) for name in ("dbos", "sqlalchemy", "psycopg", "gunicorn")},
        }

    def _answer_seconds(self) -> Iterator[float]:
        """Yield how long each mail waited, from its first try to the answer's departure."""
        statement = (
            "SELECT i.message_id, extract(epoch FROM o.sent_at) AS at FROM inbound_mails i"
            " JOIN outbound_mails o ON o.outbound_id = i.answered_by WHERE o.sent_at IS NOT NULL"
        )
        with self.database.snapshot() as connection:
            rows = connection.execute(sa.text(statement)).all()
        posted = self.people.counter.posted_at
        for row in rows:
            if row.message_id in posted:
                yield float(row.at) - posted[row.message_id]

    def close(self) -> None:
        self.people.stop()
        for process in (*self.webs, *self.workers):
            process.kill()
        self.providers.stop()
        self.database.close()


@contextmanager
def _harness(folder: Path, server: OwnServer, seed: int) -> Iterator[SoakHarness]:
    harness = SoakHarness(folder, server, seed)
    try:
        yield harness
    finally:
        harness.close()


def _list(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    soak()
