"""`flask goodwill …`: the discounts that were given, and one of them used."""

from __future__ import annotations

from typing import Any

import click

from mailagent import services
from mailagent.cli.printing import Commands, instant, print_json, print_table
from mailagent.domain.refunds.goodwill import GoodwillCode, Redeemed, Redemption
from mailagent.store.refunds import goodwill as store

goodwill = Commands("goodwill", help="Discounts given for goodwill.")


@goodwill.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_codes(as_json: bool) -> None:
    """List the discounts, oldest first."""
    with services.current().database.snapshot() as connection:
        found = store.list_all(connection)
    if as_json:
        print_json([_record(code) for code in found])
        return
    print_table(
        ("code", "order", "percent", "issued", "expires", "used", "used on"),
        [
            (
                code.code,
                code.order_id,
                code.percent,
                code.issued_at,
                code.expires_at,
                code.used_at,
                code.used_on,
            )
            for code in found
        ],
        "No discount was given.",
    )


@goodwill.command("redeem")
@click.argument("code")
@click.option("--order", "order_id", required=True, help="The order that the discount is used on.")
def redeem_code(code: str, order_id: str) -> None:
    """Use the discount CODE on an order. A code is good for one order, until its date."""
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


def _record(code: GoodwillCode) -> dict[str, Any]:
    return {
        "code": code.code,
        "order_id": code.order_id,
        "conversation_id": code.conversation_id,
        "percent": code.percent,
        "policy_version": code.policy_version,
        "issued_at": instant(code.issued_at),
        "expires_at": instant(code.expires_at),
        "used_at": instant(code.used_at),
        "used_on": code.used_on,
    }
