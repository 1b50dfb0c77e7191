"""`flask erase`: what is on record of a customer goes, but for what the shop has to keep of money."""

from __future__ import annotations

import click
import sqlalchemy as sa
from flask.cli import with_appcontext

from mailagent.cli.actor import actor
from mailagent.cli.printing import explain
from mailagent.store.privacy.erasure import ErasureRefusedError
from mailagent.web import erasing


@click.command("erase")
@click.argument("email")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_appcontext
def erase(email: str, dry_run: bool, yes: bool) -> None:
    """Erase the customer with the address EMAIL: mails, names, notes and addresses go; orders, amounts,
    dates, refunds and payments stay under a name made up for it (docs/erasure.md)."""
    address = erasing.read_address(email)
    if address is None:
        raise click.ClickException(f"{email!r} is not a mail address")
    try:
        _erase(address, dry_run, yes)
    except ErasureRefusedError as refusal:
        raise click.ClickException(_refusal(refusal)) from None
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None


def _erase(address: str, dry_run: bool, yes: bool) -> None:
    planned = erasing.plan(address)
    if not planned.is_known:
        click.echo(f"Nothing is on record of {address}.")
        return
    for name, number in planned.counts.items():
        click.echo(f"{number:6}  {name}")
    if planned.obstacles:
        raise ErasureRefusedError(planned.obstacles)
    if dry_run:
        click.echo("Nothing was changed.")
        return
    if not yes and click.prompt("Type the address to erase it") != address:
        raise click.ClickException("that is another address: nothing was changed")
    alias = erasing.erase(address, actor())
    click.echo(f"Erased. What stays of their orders and refunds is under {alias}.")


def _refusal(refusal: ErasureRefusedError) -> str:
    lines = [f"  - {each.what}. {each.advice}" for each in refusal.obstacles]
    return "\n".join(["not now, and nothing was changed:", *lines])
