"""`flask purge`: the sweep's purge of raw mail, all of it at once, as after a restored backup."""

from __future__ import annotations

import click
import sqlalchemy as sa
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.workflows.steps.sweep import purge_raw_mail


@click.command("purge")
@with_appcontext
def purge() -> None:
    """Delete the raw bytes of mail older than RAW_MAIL_DAYS. What was read of the mail stays."""
    purged = 0
    try:
        while batch := purge_raw_mail():
            purged += batch
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None
    days = services.current().waits.raw_mail_days
    click.echo(f"Raw bytes purged of {purged} mails that were older than {days} days.")
