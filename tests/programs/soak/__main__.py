"""`python -m tests.programs.soak [--minutes N] [--seed N] [--json FILE]`: loads, breaks, waits,
checks; exits with 1 if a promise was broken, or too little was tried.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from mailagent.store.database import Database, open_database
from tests.cast import MAX, MONA, TESS
from tests.harness import shop_settings
from tests.processes import Web, Worker, base_environment
from tests.programs.run_record import RELIABILITY, put_between, this_run
from tests.programs.soak.chaos import Chaos
from tests.programs.soak.checker import find_damage
from tests.programs.soak.enough import find_shortage
from tests.programs.soak.evidence import Evidence, read_evidence
from tests.programs.soak.people import People
from tests.programs.soak.providers import Providers
from tests.programs.soak.report import BEGIN, END, Soak, figures, render
from tests.programs.soak.server import OwnServer, own_server
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


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long there are faults.")
@click.option("--seed", default=int(time.time()), help="Of all that is left to chance.")
@click.option("--json", "json_file", type=click.Path(path_type=Path))
@click.option("--table", type=click.Path(path_type=Path), help="Only put this JSON into the docs.")
def soak(
    minutes: float,
    seed: int,
    json_file: Path | None,
    table: Path | None,
) -> None:
    """Soak the app on a PostgreSQL of its own, and check the promises."""
    if table is not None:
        data = json.loads(table.read_text("utf-8"))
        put_between(RELIABILITY, BEGIN, END, f"{render(data)}\n")
        return
    click.echo(f"seed {seed}", err=True)
    folder = Path(tempfile.mkdtemp(prefix="mailagent-soak-"))
    with own_server() as server, _harness(folder, server, seed) as harness:
        data = harness.play(minutes)
    click.echo(render(data))
    wrong = [*data["findings"], *data["shortage"]]
    for each in wrong:
        click.echo(each)
    if json_file is not None:
        json_file.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    if wrong:
        click.echo(f"the logs are in {folder}", err=True)
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


class SoakStage:
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
        """Load and break for so long, let all come to rest, and return the figures."""
        run = this_run()
        for web in self.webs:
            web.start_and_wait()
        for worker in self.workers:
            worker.start_and_wait()
        story = self.people.story
        left = partial(count_left, self.database)
        chaos = Chaos(self.workers, self.webs, self._server, self._seed, story, left)
        self.people.start(MAILS_PER_SECOND)
        chaos.start()
        self._tell_of_time(minutes * 60)
        self.people.stop_writing()
        self.providers.dice.on = False
        chaos.stop()
        settled_after = self._rest()
        self.people.stop()
        seen, soak = self._evidence(), self._soak(minutes, chaos, settled_after)
        shortage = find_shortage(
            minutes,
            MAILS_PER_SECOND,
            soak.mails,
            Counter(refund.status for refund in seen.refunds),
            {**soak.process_faults, **soak.provider_faults},
        )
        return figures(soak, seen, find_damage(seen), shortage) | run

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

    def _soak(self, minutes: float, chaos: Chaos, settled_after: float) -> Soak:
        counter = self.people.counter
        answers = sorted(self._answer_seconds()) or [0.0]
        with self.database.snapshot() as connection:
            version = str(connection.scalar(sa.text("SHOW server_version")))
        return Soak(
            minutes=minutes,
            seed=self._seed,
            mails=dict(counter.mails),
            posted_again=counter.redelivered,
            posted_twice=counter.duplicates,
            clicks=counter.clicks,
            process_faults=dict(chaos.faults),
            provider_faults=dict(self.providers.dice.thrown),
            takeovers=sum(
                int(count) for worker in self.workers for count in _TAKEN.findall(worker.said())
            ),
            slowest_take_over_seconds=max(
                (each.seconds for each in self.people.story.take_overs if each.runs), default=0.0
            ),
            slowest_end_seconds=chaos.slowest_end_seconds,
            slowest_answer_seconds=answers[-1],
            median_answer_seconds=statistics.median(answers),
            settled_after_seconds=settled_after,
            postgresql=version,
        )

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
def _harness(folder: Path, server: OwnServer, seed: int) -> Iterator[SoakStage]:
    harness = SoakStage(folder, server, seed)
    try:
        yield harness
    finally:
        harness.close()


if __name__ == "__main__":
    soak()
