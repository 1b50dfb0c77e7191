"""`flask refunds …`: list refunds, compare them with the payment gateway, list the gateway's events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
from flask import current_app

from mailagent import services
from mailagent.adapters import gateways
from mailagent.cli.actor import actor
from mailagent.cli.printing import (
    AS_JSON,
    Commands,
    columns,
    limit,
    one_line,
    print_json,
    print_records,
)
from mailagent.cli.settlements import settlements
from mailagent.domain.money import Money
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.payment import CALL_IS_UNDER_WAY_FOR, ListingProblem
from mailagent.domain.refunds.reconciliation import Difference, Kind, OurPart, compare
from mailagent.domain.refunds.refund import Refund
from mailagent.settings import Settings
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.refunds import approvals, external_refunds, gateway_events, refund_payments
from mailagent.store.refunds import refunds as store
from mailagent.store.refunds.gateway_events import KNOWN

refunds = Commands("refunds", help="Refunds: requested, decided, paid.")
refunds.add_command(settlements)


@refunds.command("list")
@click.option("--order", "order_id", help="Only the refunds of this order.")
@AS_JSON
def list_refunds(order_id: str | None, as_json: bool) -> None:
    """List refunds, oldest first."""
    with services.current().database.snapshot() as connection:
        found = store.list_all(connection, order_id)
        deciders = approvals.list_deciders(connection)
    records = [_record(refund, deciders.get(refund.refund_id)) for refund in found]
    shown = "refund_id order_id amount currency status requested_at decided_by paid_at"
    print_records(records, shown, "There are no refunds.", as_json=as_json)


def _record(refund: Refund, deciders: tuple[str, str | None] | None) -> dict[str, Any]:
    first, second = deciders or (None, None)
    credit = credit_of(refund)
    return {
        **columns(refund, "refund_id order_id conversation_id"),
        "amount": refund.amount.decimal(),
        "currency": refund.amount.currency,
        **columns(
            refund,
            "item_ids reason status requested_at decided_by decided_at note gateway gateway_reference"
            " paid_at four_eyes",
        ),
        "first_decided_by": first,
        "countersigned_by": second,
        "store_credit": credit.decimal() if credit else None,
    }


@refunds.command("events")
@limit("newest first")
@AS_JSON
def list_events(limit: int, as_json: bool) -> None:
    """List the payment gateway's webhook events, newest first, and what followed."""
    with services.current().database.snapshot() as connection:
        found = gateway_events.list_latest(connection, limit)
    names = "event_id gateway kind outcome occurred_at received_at"
    records = [columns(row, names) for row in found]
    nothing = "The payment gateway has sent no events."
    print_records(records, "event_id kind occurred_at outcome", nothing, as_json=as_json)


@refunds.command("ask-again")
@click.argument("refund_id")
def ask_again(refund_id: str) -> None:
    """Say that REFUND_ID was certainly not paid, as you have seen at the payment provider: the gateway may be
    asked again. If it was paid, this pays twice."""
    live = services.current()
    with live.database.transaction() as connection:
        begun_at = refund_payments.lock_last_asked(connection, refund_id)
        if begun_at and live.now() - begun_at < CALL_IS_UNDER_WAY_FOR:
            until = begun_at + CALL_IS_UNDER_WAY_FOR
            raise click.ClickException(
                f"the gateway may be asked for {refund_id} at this moment: look again at {until:%H:%M:%S} UTC"
            )
        found = refund_payments.note_not_made(connection, refund_id)
        if not found:
            raise click.ClickException(f"of {refund_id} no call to the gateway is left unknown")
        run_id = store.load(connection, refund_id).run_id
        audit.record(connection, live.now(), actor(), "refund not made", refund_id)
    click.echo(f"{refund_id} may be asked again. By: flask runs replay {run_id}")


# --- reconciliation -------------------------------------------------------------------------------


@refunds.command("reconcile")
@click.option(
    "--since",
    "days",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    help="Payments of orders that changed, or had a refund, in the last so many days.",
)
@AS_JSON
@click.option("--record", is_flag=True, help="Record what a missed webhook event would have.")
def reconcile(days: int, as_json: bool, record: bool) -> None:
    """Compare our refunds with the payment gateway's. Print each difference; exit with 1 if there is any."""
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
    for row in disputes:
        names = " / ".join(row.body["payment_ids"])
        what = f"Payment {names} is charged back (dispute {row.body['dispute']}); no order has it."
        found.append(Difference(Kind.NO_ORDER, names, what))
    outcomes = [_record_difference(each) if record else None for each in found]
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
        # Read our rows after the gateway's answer: what we recorded meanwhile is no difference.
        with live.database.snapshot() as connection:
            ours = [
                _part(part) for part in external_refunds.list_named_parts(connection, payment_id)
            ]
        found += compare(payment_id, ours, theirs)
    return found, problems


def _part(part: Row) -> OurPart:
    returned = part.returned_at is not None and part.state == "done"
    return OurPart(
        refund_id=part.refund_id,
        order_id=part.order_id,
        amount=Money(part.amount_minor, part.currency),
        state="returned" if returned else part.state,
        key=part.idempotency_key,
        reference=part.reference,
    )


def _record_difference(difference: Difference) -> str | None:
    if difference.theirs is None:
        return None
    from mailagent.payment_events import follow_refund  # slow to import

    live = services.current()
    event_id = f"reconciled{live.now():%Y%m%d%H%M%S}"
    with live.database.transaction() as connection:
        outcome = follow_refund(connection, difference.theirs, event_id, is_now=True)
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
        **columns(difference, "kind payment_id order_id refund_id sentence"),
        "gateway_reference": theirs.reference if theirs else None,
        "recorded": outcome,
    }
