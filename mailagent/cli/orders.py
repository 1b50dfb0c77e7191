"""`flask orders …`: the shop's orders in, and one of them shown."""

from __future__ import annotations

from collections import Counter
from typing import BinaryIO

import click

from mailagent import services
from mailagent.adapters.orders_file import OrdersFileProblem, parse_orders
from mailagent.cli.printing import Commands, instant, print_json
from mailagent.domain.money import Money
from mailagent.domain.order import OrderProblem
from mailagent.store import orders as store

orders = Commands("orders", help="The shop's orders.")


@orders.command("import")
@click.argument("file", type=click.File("rb"))
def import_orders(file: BinaryIO) -> None:
    """Create or update the orders in FILE (JSON lines; - for standard input), all or none."""
    live = services.current()
    counts: Counter[str] = Counter()
    try:
        found = parse_orders(file)
        with live.database.transaction() as connection:
            for line_no, order in found:
                try:
                    counts[store.save(connection, order, live.now()).value] += 1
                except OrderProblem as problem:
                    raise OrdersFileProblem(line_no, str(problem)) from None
    except OrdersFileProblem as problem:
        name = getattr(file, "name", "<stdin>")
        raise click.ClickException(f"{name}, {problem}. Nothing was imported.") from None
    click.echo(
        f"{len(found)} orders: {counts['created']} created, {counts['changed']} changed, "
        f"{counts['unchanged']} unchanged."
    )


@orders.command("show")
@click.argument("order_id")
def show_order(order_id: str) -> None:
    """Show one order as JSON, in the format of the orders file, with what was refunded."""
    with services.current().database.snapshot() as connection:
        order = store.find(connection, order_id)
        held = store.held_minor(connection, order_id)
    if order is None:
        raise click.ClickException(f"there is no order {order_id}")
    print_json(
        {
            "order_id": order.order_id,
            "customer": {"email": order.customer_email, "name": order.customer_name},
            "currency": order.currency,
            "placed_at": instant(order.placed_at),
            "delivered_at": instant(order.delivered_at),
            "status": order.status.value,
            "items": [
                {
                    "item_id": line.item_id,
                    "name": line.name,
                    "quantity": line.quantity,
                    "unit_price": line.unit_price.decimal(),
                }
                for line in order.lines
            ],
            "payments": [
                {
                    "payment_id": payment.payment_id,
                    "method": payment.method,
                    "amount": payment.amount.decimal(),
                }
                for payment in order.payments
            ],
            "paid": order.paid.decimal(),
            "refunded_or_under_way": Money(held, order.currency).decimal(),
        }
    )
