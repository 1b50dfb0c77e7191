"""`flask mails …`: every mail that came in, also what machines wrote and what belongs to no conversation."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.cli.printing import LIMIT, Commands, instant, print_json, print_table
from mailagent.domain.mail.message import MailKind, MailStatus
from mailagent.store.mail import inbound

SUBJECT_WIDTH = 60
COLUMNS = ("received_at", "mail_id", "from", "kind", "status", "reason", "subject")

mails = Commands("mails", help="Mails that came in.")


@mails.command("doubt")
@click.option("--dry-run", is_flag=True, help="Say how many, and change nothing.")
def doubt(dry_run: bool) -> None:
    """After a restored backup, before any worker runs: what waits may have been sent or answered in the time
    that is lost. Nothing of it goes out a second time by itself: people are told of mail of ours; mail of
    customers is given to the team, throttled mail too, and drafts are taken back (docs/backup.md). It may be
    broken off and run again."""
    from mailagent.workflows.steps.maintenance import restored  # here: it takes long to load

    found = restored.find_doubtful()
    if not dry_run:
        restored.give_to_people(found)
    click.echo(f"{len(found.ours):6}  mails of ours that may have gone out")
    click.echo(f"{found.mails:6}  mails of customers that may have been answered")
    click.echo(f"{found.drafts:6}  drafts of answers that may have been sent")
    if dry_run:
        click.echo("Nothing was changed.")


@mails.command("list")
@click.option(
    "--status", type=click.Choice([each.value for each in MailStatus]), help="Only of this status."
)
@click.option(
    "--kind", type=click.Choice([each.value for each in MailKind]), help="Only of this kind."
)
@click.option(
    "--limit", type=LIMIT, default=50, show_default=True, help="How many, newest mail first."
)
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_mails(status: str | None, kind: str | None, limit: int, as_json: bool) -> None:
    """List mails that came in, the newest first."""
    with services.current().database.snapshot() as connection:
        rows = inbound.list_recent(
            connection,
            MailStatus(status) if status else None,
            MailKind(kind) if kind else None,
            limit,
        )
    records = [
        {
            "received_at": instant(row.received_at),
            "mail_id": row.mail_id,
            "conversation_id": row.conversation_id,
            "from": row.from_address,
            "kind": row.kind,
            "identity": row.identity,
            "status": row.status,
            "reason": row.no_answer_reason,
            "subject": row.subject,
        }
        for row in rows
    ]
    if as_json:
        print_json(records)
        return
    cut = [{**record, "subject": record["subject"][:SUBJECT_WIDTH]} for record in records]
    print_table(
        COLUMNS, [[record[name] for name in COLUMNS] for record in cut], "There are no such mails."
    )
