"""`flask erase`: erase a customer. Records of money stay, under an alias."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from mailagent.cli.actor import actor
from mailagent.cli.printing import Command
from mailagent.store.privacy.erasure import ErasureRefusedError
from mailagent.web import erasing


@click.command("erase", cls=Command)
@click.argument("email")
@click.option("--dry-run", is_flag=True, help="Print what would be erased and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_appcontext
def erase(email: str, dry_run: bool, yes: bool) -> None:
    """Erase a customer. EMAIL is their address; see docs/erasure.md.

    Mails, names, notes and addresses are erased. Orders, amounts, dates, refunds and payments stay, under an
    alias.
    """
    address = erasing.read_address(email)
    if address is None:
        raise click.ClickException(f"{email!r} is not a mail address")
    try:
        _erase(address, dry_run, yes)
    except ErasureRefusedError as refusal:
        raise click.ClickException(_refusal(refusal)) from None


def _erase(address: str, dry_run: bool, yes: bool) -> None:
    planned = erasing.plan(address)
    if not planned.is_known:
        click.echo(f"There is nothing on record about {address}.")
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
    click.echo(f"Erased. Their orders and refunds stay under the alias {alias}.")


def _refusal(refusal: ErasureRefusedError) -> str:
    lines = [f"  - {each}" for each in refusal.obstacles]
    return "\n".join(["the customer cannot be erased now; nothing was changed:", *lines])
