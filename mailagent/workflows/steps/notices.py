"""How operators are written to: a few lines, once for each key."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent import mailers, services


def tell_operators(connection: sa.Connection, title: str, lines: Sequence[str], key: str) -> None:
    """Mail a notice to the operators, or to the team when nobody is named as one. `key` says what it is
    about: once to each of them."""
    live = services.current()
    notice = mailers.Notice(f"operators:{key}", title, lines)
    addresses = live.shop.ops_emails or live.shop.team_emails
    for outbound_id in mailers.write_notice(connection, notice, addresses):
        live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
