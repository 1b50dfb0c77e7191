"""`flask mails …`: inbound mail, including automatic mail and mail outside any conversation."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.cli.printing import AS_JSON, Commands, columns, limit, print_records
from mailagent.domain.mail.message import MailKind, MailStatus
from mailagent.store.mail import inbound
from mailagent.store.operations import workers

SUBJECT_WIDTH = 60
SHOWN = "received_at mail_id from kind status reason subject"

mails = Commands("mails", help="Inbound mail.")


@mails.command("doubt")
@click.option("--dry-run", is_flag=True, help="Print the counts and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def doubt(dry_run: bool, yes: bool) -> None:
    """Run this after you restore a backup and before you start a worker (docs/backup.md).

    Mail that waits in the backup may have been sent or answered since. This command hands customers' mail to
    the team, withdraws drafts and reports our own unsent mail to people, so that nothing goes out twice. You
    may interrupt it and run it again.
    """
    from mailagent.workflows.steps.maintenance import restored  # slow to import

    with services.current().database.snapshot() as connection:
        alive = connection.scalar(workers.alive(connection).limit(1))
    if alive and not dry_run:
        raise click.ClickException(
            f"the worker {alive} is alive and answers this mail. This command is for a database that was just "
            "restored: stop all workers first. Nothing was changed"
        )
    found = restored.find_doubtful()
    click.echo(f"{len(found.ours):6}  mails of ours that may have gone out")
    click.echo(f"{found.mails:6}  mails of customers that may have been answered")
    click.echo(f"{found.drafts:6}  drafts of answers that may have been sent")
    if dry_run:
        click.echo("Nothing was changed.")
    elif yes or click.confirm("Keep all of it from going out, and give it to people?", abort=True):
        restored.give_to_people(found)


@mails.command("list")
@click.option(
    "--status", type=click.Choice([each.value for each in MailStatus]), help="Only of this status."
)
@click.option(
    "--kind", type=click.Choice([each.value for each in MailKind]), help="Only of this kind."
)
@limit("newest mail first")
@AS_JSON
def list_mails(status: str | None, kind: str | None, limit: int, as_json: bool) -> None:
    """List inbound mail, newest first."""
    with services.current().database.snapshot() as connection:
        rows = inbound.list_recent(
            connection,
            MailStatus(status) if status else None,
            MailKind(kind) if kind else None,
            limit,
        )
    records = [
        {
            **columns(row, "received_at mail_id conversation_id kind identity status subject"),
            "from": row.from_address,
            "reason": row.no_answer_reason,
        }
        for row in rows
    ]
    if not as_json:
        records = [{**each, "subject": each["subject"][:SUBJECT_WIDTH]} for each in records]
    print_records(records, SHOWN, "There are no such mails.", as_json=as_json)
