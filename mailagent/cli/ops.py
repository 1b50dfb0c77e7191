"""`flask ops …`: logins to the console."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.cli.actor import actor
from mailagent.cli.printing import Commands
from mailagent.domain.operations.access import roles_of
from mailagent.store import audit
from mailagent.store.console import sessions
from mailagent.web.console.login import LINK_LIVES, make_link

ops = Commands("ops", help="Logins to the console.")


@ops.command("login-link")
@click.argument("email")
def login_link(email: str) -> None:
    """Print a link that logs EMAIL in, as a mailed one does; for times when no mail goes out."""
    live, address = services.current(), email.strip().casefold()
    if not roles_of(address, live.shop):
        raise click.ClickException(
            f"{address} is no address of the settings; see docs/reference.md"
        )
    with live.database.transaction() as connection:
        link = make_link(connection, address, "/ops")
        audit.record(connection, live.now(), actor(), "login link printed", address)
    minutes = int(LINK_LIVES.total_seconds() // 60)
    click.echo(f"It works once, for {minutes} minutes, and logs in as {address}:\n{link}")


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
