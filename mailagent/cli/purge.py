"""`flask purge`: what is old enough goes, all of it at once, as after a restored backup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click
import sqlalchemy as sa
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.store.mail import inbound
from mailagent.store.privacy import retention


@click.command("purge")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@with_appcontext
def purge(dry_run: bool) -> None:
    """Delete what is older than RAW_MAIL_DAYS, RUN_DAYS and MAIL_DAYS say, and rows that served for a
    while only (docs/retention.md). It may be broken off, and run beside itself and the workers."""
    try:
        for line in _look() if dry_run else _purge():
            click.echo(f"{line.number:8}  {line.what}")
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None
    if dry_run:
        click.echo("Nothing was changed.")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    what: str


def _raw() -> str:
    return f"raw mails older than {services.current().waits.raw_mail_days} days"


def _runs() -> str:
    days = services.current().retention.run_days
    return f"histories of runs that ended more than {days} days ago"


def _words() -> str:
    days = services.current().retention.mail_days
    if days is None:
        return "conversations without their words: MAIL_DAYS is not set"
    return f"conversations, and mails outside of any, quiet for {days} days: their words"


def _look() -> Iterator[_Line]:
    from mailagent.workflows.steps.maintenance import housekeeping  # here: it takes long to load

    live = services.current()
    now = live.now()
    before = live.retention.text_before(now)
    with live.database.snapshot() as connection:
        yield _Line(inbound.count_raw(connection, now - live.waits.raw_mail_kept), _raw())
        words = retention.count(connection, before) if before else {}
        yield _Line(sum(words.values()), _words())
        for rule in retention.RULES:
            yield _Line(retention.count_short_lived(connection, rule, now), rule.what)
    yield _Line(housekeeping.count_histories(), _runs())


def _purge() -> Iterator[_Line]:
    from mailagent.workflows.steps.maintenance import housekeeping
    from mailagent.workflows.steps.maintenance.sweep import purge_raw_mail

    endless = housekeeping.Clock(None)
    raw = 0
    while batch := purge_raw_mail():
        raw += batch
    yield _Line(raw, _raw())
    yield _Line(housekeeping.take_out_text(endless), _words())
    for rule in retention.RULES:
        yield _Line(housekeeping.delete_of_rule(rule, endless), rule.what)
    yield _Line(housekeeping.delete_histories(endless), _runs())
