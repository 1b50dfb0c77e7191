"""`flask goodwill …`: discount codes."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.cli.printing import AS_JSON, Commands, columns, instant, print_records
from mailagent.domain.refunds.goodwill import Redeemed, Redemption
from mailagent.store.refunds import goodwill as store

goodwill = Commands("goodwill", help="Discount codes that were given for goodwill.")


@goodwill.command("list")
@AS_JSON
def list_codes(as_json: bool) -> None:
    """List the discounts, oldest first."""
    with services.current().database.snapshot() as connection:
        found = store.list_all(connection)
    names = (
        "code order_id conversation_id percent policy_version issued_at expires_at used_at used_on"
    )
    shown = "code order_id percent issued_at expires_at used_at used_on"
    nothing = "There are no discount codes."
    print_records([columns(code, names) for code in found], shown, nothing, as_json=as_json)


@goodwill.command("redeem")
@click.argument("code")
@click.option("--order", "order_id", required=True, help="The order to use it on.")
def redeem_code(code: str, order_id: str) -> None:
    """Use the discount CODE on an order. A code is valid for one order, until it expires."""
    live = services.current()
    with live.database.transaction() as connection:
        redemption = store.redeem(connection, code, order_id, live.now())
    if redemption.outcome not in (Redeemed.NOW, Redeemed.BEFORE_ON_SAME):
        raise click.ClickException(redemption.words)
    click.echo(_success(redemption, order_id))


def _success(redemption: Redemption, order_id: str) -> str:
    percent = redemption.code.percent if redemption.code else 0
    if redemption.outcome is Redeemed.NOW or redemption.code is None:
        return f"{percent}% off order {order_id}: the code is used now."
    used_at = instant(redemption.code.used_at)
    return f"{percent}% off order {order_id}: the code was used on it already, at {used_at}."
