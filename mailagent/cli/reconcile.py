"""`flask refunds reconcile` and `flask refunds events`: does the gateway say the same as our rows?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.adapters import gateways
from mailagent.cli.printing import LIMIT, instant, one_line, print_json, print_table
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import ListingProblem
from mailagent.domain.refunds.reconciliation import Difference, Kind, OurPart, compare
from mailagent.store.database import Row
from mailagent.store.refunds import external_refunds, gateway_events, refund_payments
from mailagent.store.refunds.payment_events import KNOWN
from mailagent.web.webhooks.payment_events import follow_refund

if TYPE_CHECKING:  # pydantic loads with it
    from mailagent.settings import Settings


@click.command("reconcile")
@click.option(
    "--since",
    "days",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    help="Payments of orders that were changed, or had a refund, in so many days.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@click.option("--record", is_flag=True, help="Record what a webhook that was missed would have.")
@with_appcontext
def reconcile(days: int, as_json: bool, record: bool) -> None:
    """Compare our refunds with the gateway's; print each difference, exit with 1 if there is any."""
    settings: Settings = current_app.config["MAILAGENT"]
    if gateways.find(settings.payment_gateway) is not None and not settings.runs_workflows:
        raise click.ClickException(
            "this process has no gateway: set MAILAGENT_ROLE to worker or all"
        )
    live = services.current()
    since = live.now() - timedelta(days=days)
    with live.database.snapshot() as connection:
        payment_ids = external_refunds.list_payment_ids(connection, since)
        disputes = gateway_events.list_disputes_without_order(connection, since)
    found, problems = _differences(payment_ids)
    found += [_unmatched(row) for row in disputes]
    outcomes = [_record(each) if record else None for each in found]
    if as_json:
        print_json([_plain(*pair) for pair in zip(found, outcomes, strict=True)])
    else:
        _print(found, outcomes, len(payment_ids))
    for problem in problems:
        click.echo(f"Error: {one_line(problem)}", err=True)
    if found or problems:
        raise SystemExit(1)


def _differences(payment_ids: list[str]) -> tuple[list[Difference], list[str]]:
    live = services.current()
    found: list[Difference] = []
    problems = []
    for payment_id in payment_ids:
        try:
            theirs = live.gateway.list_refunds(payment_id)
        except ListingProblem as problem:
            problems.append(f"the refunds of payment {payment_id} cannot be read: {problem}")
            continue
        # Read after the gateway was asked: what was recorded meanwhile is no difference.
        with live.database.snapshot() as connection:
            ours = _ours(connection, payment_id)
        found += compare(payment_id, ours, theirs)
    return found, problems


def _unmatched(row: Row) -> Difference:
    names = " / ".join(row.body["payment_ids"])
    sentence = f"Payment {names} is charged back (dispute {row.body['dispute']}); no order has it."
    return Difference(Kind.NO_ORDER, names, sentence)


def _ours(connection: sa.Connection, payment_id: str) -> list[OurPart]:
    asked = refund_payments.list_payments_of(connection, payment_id)
    told = external_refunds.list_of_payment(connection, payment_id)
    return [_part(row) for row in (*asked, *told)]


def _part(row: Row) -> OurPart:
    returned = row.returned_at is not None and row.state == "done"
    return OurPart(
        refund_id=row.refund_id,
        order_id=row.order_id,
        amount=Money(row.amount_minor, row.currency),
        state="returned" if returned else row.state,
        key=row.idempotency_key,
        reference=row.reference,
    )


def _record(difference: Difference) -> str | None:
    if difference.theirs is None:
        return None
    live = services.current()
    again = f"reconciled{live.now():%Y%m%d%H%M%S}"
    with live.database.transaction() as connection:
        outcome = follow_refund(connection, difference.theirs, again, is_now=True)
    return None if outcome == KNOWN else outcome


def _print(found: list[Difference], outcomes: list[str | None], payments: int) -> None:
    for difference, outcome in zip(found, outcomes, strict=True):
        click.echo(one_line(difference.sentence))
        if outcome:
            click.echo(f"  recorded: {one_line(outcome)}")
    what = "1 payment" if payments == 1 else f"{payments} payments"
    count = "1 difference" if len(found) == 1 else f"{len(found) or 'no'} differences"
    click.echo(f"{what} compared, {count}.")


def _plain(difference: Difference, outcome: str | None) -> dict[str, Any]:
    theirs = difference.theirs
    return {
        "kind": difference.kind.value,
        "payment_id": difference.payment_id,
        "order_id": difference.order_id,
        "refund_id": difference.refund_id,
        "gateway_reference": theirs.reference if theirs else None,
        "sentence": difference.sentence,
        "recorded": outcome,
    }


@click.command("events")
@click.option("--limit", type=LIMIT, default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@with_appcontext
def events(limit: int, as_json: bool) -> None:
    """List what the payment gateway told us, newest first, and what came of it."""
    with services.current().database.snapshot() as connection:
        found = gateway_events.list_latest(connection, limit)
    if as_json:
        print_json([_event(row) for row in found])
        return
    print_table(
        ("event", "kind", "occurred", "outcome"),
        [(row.event_id, row.kind, row.occurred_at, row.outcome) for row in found],
        "The gateway has told us nothing.",
    )


def _event(row: Row) -> dict[str, Any]:
    times: dict[str, datetime] = {"occurred_at": row.occurred_at, "received_at": row.received_at}
    return {
        "event_id": row.event_id,
        "gateway": row.gateway,
        "kind": row.kind,
        "outcome": row.outcome,
        **{name: instant(moment) for name, moment in times.items()},
    }
