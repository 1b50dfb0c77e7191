"""`flask orders …`: import orders, show one, check the order source."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import BinaryIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from mailagent import services
from mailagent.adapters.order_files.export import OrdersFileProblem
from mailagent.adapters.order_files.files import OrdersFile, Reading, parse_orders
from mailagent.cli.installation.check_source import check_source
from mailagent.cli.printing import Commands, print_json
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderProblem
from mailagent.store.orders.versions import list_versions
from mailagent.store.refunds import order_import
from mailagent.store.refunds import orders as store

LARGEST_FILE_BYTES = 256 * 1024 * 1024
LINES_SHOWN = 20

orders = Commands("orders", help="The shop's orders.")
orders.add_command(check_source)


@orders.command("import")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--timezone", "zone_name", help="Time zone of times without one, such as Europe/Berlin."
)
@click.option(
    "--delivered-after",
    "days",
    type=click.IntRange(0, 365),
    help="Days after which a shipped order counts as delivered (exports only).",
)
@click.option(
    "--ours-included",
    is_flag=True,
    help="The refunded amounts in FILE include refunds that mailagent recorded.",
)
def import_orders(
    file: BinaryIO, zone_name: str | None, days: int | None, ours_included: bool
) -> None:
    """Create or update the orders in FILE (- for standard input): all of them or none.

    FILE is JSON, or a CSV export of Shopify or WooCommerce: see docs/orders.md.
    """
    now = services.current().now()
    reading = Reading(now, _zone(zone_name), days)
    try:
        found = parse_orders(_read(file), reading)
        counts = _save(found, now, ours_included)
    except OrdersFileProblem as problem:
        name = getattr(file, "name", "<stdin>")
        raise click.ClickException(f"{name}, {problem}. Nothing was imported.") from None
    click.echo(
        f"{len(found.orders)} orders: {counts['created']} created, {counts['changed']} changed, "
        f"{counts['unchanged']} unchanged."
    )
    if found.left_out:
        lines = ", ".join(str(line_no) for line_no in found.left_out[:LINES_SHOWN])
        more = ", …" if len(found.left_out) > LINES_SHOWN else ""
        click.echo(f"{len(found.left_out)} without a mail address left out: line {lines}{more}.")
    if found.undated:
        click.echo(
            f"{found.undated} stay shipped: FILE does not say when they were sent, so"
            " --delivered-after could not be counted from it. docs/orders.md names the column."
        )


def _read(file: BinaryIO) -> bytes:
    data = file.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise click.ClickException(
            f"a file has at most {LARGEST_FILE_BYTES} bytes; import it in parts"
        )
    return data


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder
        raise click.BadParameter(f"{name!r} is not a time zone such as Europe/Berlin") from None


def _save(found: OrdersFile, now: datetime, ours_included: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    problems = []
    with services.current().database.transaction() as connection:
        # Sorted, so that two imports at once cannot deadlock.
        for line_no, order in sorted(found.orders, key=lambda each: each[1].order_id):
            told = order_import.without_known_refunds(connection, order) if ours_included else order
            try:
                counts[order_import.save(connection, told, now).value] += 1
            except OrderProblem as problem:
                problems.append((line_no, str(problem)))
        if problems:
            raise OrdersFileProblem(*min(problems))
    return counts


@orders.command("show")
@click.argument("order_id")
@click.option(
    "--versions",
    is_flag=True,
    help="Show what the order source said of it, and when; oldest first.",
)
def show_order(order_id: str, versions: bool) -> None:
    """Show one order as JSON, in the format of the orders file, with the refunded amount."""
    from mailagent.adapters.order_files.record import render_order  # loads pydantic

    with services.current().database.snapshot() as connection:
        order = store.find(connection, order_id)
        taken = store.taken_minor(connection, order_id)
        told = list_versions(connection, order_id) if versions else ()
    if order is None:
        raise click.ClickException(f"there is no order {order_id}")
    if versions:
        print_json([dict(each._mapping) for each in told])
        return
    given_back = Money(taken, order.currency)
    print_json(
        render_order(order)
        | {"paid": order.paid.decimal(), "refunded_or_under_way": given_back.decimal()}
    )
