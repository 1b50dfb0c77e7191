"""`python -m tests.bench.migrating [--mails N]`: how long migrations take, and hold up writers, on a
database with a million mails."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from mailagent.store.database import open_database
from tests.bench.console_fill import SINCE_0006, Size, fill
from tests.databases import ROOT, migrate, postgres_at, postgres_server

BEFORE = "0005"
EVERY_SECONDS = 0.02

# What comes with every mail: its row, its thread's latest time, a line of the audit trail.
_RECEIVE = (
    """
    INSERT INTO inbound_mails (mail_id, dedup_key, conversation_id, from_address, from_name,
        envelope_to, subject, message_id, in_reply_to, mail_references, received_at, body, new_text,
        attachments, flags, identity, kind, status)
    VALUES ('writer_' || :n, 'writer_' || :n, :thread, 'ada@example.com', 'Ada', '[]', 'My order',
        :n || '@writer.example', '[]', '[]', now(), 'Where is it?', 'Where is it?', '[]', '[]', 'dkim',
        'customer', 'unanswered')
    """,
    "UPDATE conversations SET last_mail_at = now() WHERE conversation_id = :thread",
    "INSERT INTO audit (at, actor, action, subject, details)"
    " VALUES (now(), 'agent', 'mail answered', 'writer_' || :n, '{}')",
)


@dataclass
class Writer:
    """Receives a mail every 20 ms, and notes how long each took."""

    engine: sa.Engine
    took: list[float] = field(default_factory=list)
    number: int = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Write as long as this lasts; `took` begins anew."""
        self.took, stopping = [], threading.Event()

        def run() -> None:
            while not stopping.wait(EVERY_SECONDS):
                self._receive()

        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(run)
            try:
                yield
            finally:
                stopping.set()
            running.result()

    def _receive(self) -> None:
        self.number += 1
        values = {"n": str(self.number), "thread": f"conversation_{1 + self.number % 100:026}"}
        began = time.perf_counter()
        with self.engine.begin() as connection:
            for statement in _RECEIVE:
                connection.execute(sa.text(statement), values)
        self.took.append(time.perf_counter() - began)


@click.command()
@click.option("--mails", default=1_000_000, show_default=True)
def main(mails: int) -> None:
    """Fill a database as it was before, migrate it step by step while mail comes in, print a table."""
    size = Size(mails, max(mails // 10, 100), max(mails // 100, 10))
    with postgres_server() as server, postgres_at(server, BEFORE) as url:
        engine = open_database(url).engine
        began = time.perf_counter()
        fill(engine, size, without=SINCE_0006)
        print(f"{mails:,} mails, filled in {time.perf_counter() - began:.0f} s")
        print("\n| migration | takes | mails meanwhile | half of them within | the slowest |")
        print("|---|---|---|---|---|")
        writer = Writer(engine)
        with writer.at_work():
            time.sleep(5)
        _print_row("none, five seconds", 5.0, writer)
        for revision in _revisions():
            began = time.perf_counter()
            with writer.at_work():
                migrate(url, revision, "app_only=yes")
            _print_row(revision, time.perf_counter() - began, writer)
        engine.dispose()


def _print_row(name: str, seconds: float, writer: Writer) -> None:
    took = sorted(writer.took) or [0.0]
    middle, most = statistics.median(took) * 1000, took[-1] * 1000
    print(
        f"| {name} | {seconds:.1f} s | {len(writer.took)} | {middle:.0f} ms | {most:.0f} ms |",
        flush=True,
    )


def _revisions() -> list[str]:
    """Return the migrations after the one that it begins with, oldest first."""
    scripts = ScriptDirectory.from_config(Config(toml_file=str(ROOT / "pyproject.toml")))
    after = scripts.iterate_revisions("head", BEFORE)
    return [each.revision for each in reversed(list(after))]


if __name__ == "__main__":
    main()
