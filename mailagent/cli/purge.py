"""`flask purge`: delete everything that is past its retention period, at once."""

from __future__ import annotations

from collections.abc import Iterator

import click
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import Command
from mailagent.store.mail import raw_mail
from mailagent.store.privacy import retention


@click.command("purge", cls=Command)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted and change nothing.")
@with_appcontext
def purge(dry_run: bool) -> None:
    """Delete everything that is past its retention period (RAW_MAIL_DAYS, RUN_DAYS, MAIL_DAYS).

    You may interrupt it, run it twice at once, and run it beside workers (docs/retention.md).
    """
    for number, what in _count() if dry_run else _purge():
        click.echo(f"{number:8}  {what}")
    if dry_run:
        click.echo("Nothing was changed.")


def _raw() -> str:
    return f"raw mails older than {services.current().waits.raw_mail_days} days"


def _runs() -> str:
    days = services.current().retention.run_days
    return f"histories of runs that ended more than {days} days ago"


def _text() -> str:
    days = services.current().retention.mail_days
    if days is None:
        return "texts of conversations: MAIL_DAYS is not set"
    return f"texts of conversations, and of mails outside any, without mail for {days} days"


def _count() -> Iterator[tuple[int, str]]:
    from mailagent.workflows.steps.maintenance import housekeeping  # slow to import

    live = services.current()
    now = live.now()
    before = live.retention.text_before(now)
    with live.database.snapshot() as connection:
        yield raw_mail.count(connection, now - live.waits.raw_mail_kept), _raw()
        yield (retention.count(connection, before) if before else 0), _text()
        for rule in retention.RULES:
            yield retention.count_short_lived(connection, rule, now), rule.what
    yield housekeeping.count_histories(), _runs()


def _purge() -> Iterator[tuple[int, str]]:
    from mailagent.workflows.steps.maintenance import housekeeping
    from mailagent.workflows.steps.maintenance.sweep import purge_raw_mail

    no_limit = housekeeping.Deadline(None)
    raw = 0
    while batch := purge_raw_mail():
        raw += batch
    yield raw, _raw()
    yield housekeeping.take_out_text(no_limit), _text()
    for rule in retention.RULES:
        yield housekeeping.delete_of_rule(rule, no_limit), rule.what
    yield housekeeping.delete_histories(no_limit), _runs()
