"""`flask ops …`: logins to the console."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.cli.actor import actor
from mailagent.cli.printing import Commands
from mailagent.store.console import sessions

ops = Commands("ops", help="Logins to the console.")


@ops.command("reset-second-factor")
@click.argument("email")
def reset_second_factor(email: str) -> None:
    """Remove the authenticator app of EMAIL and end their sessions. At the next login they set up a new one."""
    live, address = services.current(), email.strip().casefold()
    with live.database.transaction() as connection:
        removed = sessions.reset(connection, address, actor(), live.now())
    if not removed:
        raise click.ClickException(f"{address} has no second factor; their sessions have ended")
    click.echo(f"The second factor of {address} is gone, and their sessions have ended.")
