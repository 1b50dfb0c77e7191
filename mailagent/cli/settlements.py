"""`flask refunds settlements …`: what the ledger recorded and the shop is to pay."""

from __future__ import annotations

from typing import Any, BinaryIO, TextIO

import click

from mailagent import services
from mailagent.cli.actor import actor
from mailagent.cli.printing import AS_JSON, Commands, columns, one_line, print_records
from mailagent.domain.refunds.settlement import (
    Outcome,
    Settlement,
    SettlementFileProblem,
    SettlementProblem,
    SettlementState,
)
from mailagent.store.refunds import settlements as store
from mailagent.store.refunds import stops

settlements = Commands("settlements", help="Refunds in the ledger that the shop is to pay.")


@settlements.command("list")
@AS_JSON
def list_settlements(as_json: bool) -> None:
    """List what waits to be paid, oldest first."""
    with services.current().database.snapshot() as connection:
        found = store.list_open(connection)
        stopped = stops.find_stops(connection, (each.refund_id for each in found))
    records = [_record(each) | {"do_not_pay": stopped.get(each.refund_id)} for each in found]
    shown = "settlement order_id customer_name payment_id amount currency due_at do_not_pay"
    print_records(records, shown, "Nothing waits to be paid.", as_json=as_json)


def _record(each: Settlement) -> dict[str, Any]:
    return {
        "settlement": each.idempotency_key,
        **columns(each, "refund_id order_id customer_name payment_id method"),
        "amount": each.to_give.decimal(),
        "currency": each.to_give.currency,
        **columns(each, "recorded_at due_at promised"),
    }


@settlements.command("export")
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True), default="-")
def export(file: TextIO) -> None:
    """Write what waits to be paid to FILE as CSV (- for standard output)."""
    from mailagent.adapters.csv_file import BYTE_ORDER_MARK
    from mailagent.adapters.settlement_file import write_settlements

    with services.current().database.snapshot() as connection:
        found = store.list_open(connection)
        stopped = stops.find_stops(connection, (each.refund_id for each in found))
    mark = "" if file.name == "-" else BYTE_ORDER_MARK
    file.write(mark + write_settlements(found, stopped))


@settlements.command("import")
@click.argument("file", type=click.File("rb"))
def import_outcomes(file: BinaryIO) -> None:
    """Read FILE (- for standard input), an export whose column "outcome" says settled or failed: all of its
    lines or none. Lines without an outcome stay to be paid."""
    from mailagent.adapters.settlement_file import read_outcomes
    from mailagent.settling import reports_of, settle_all

    try:
        outcomes = read_outcomes(file.read())
        with reports_of(person := actor()) as connection:
            news = settle_all(connection, outcomes, person)
    except SettlementFileProblem as problem:
        name = getattr(file, "name", "<stdin>")
        lines = "\n".join(f"{name}, {one_line(line)}" for line in problem.lines)
        raise click.ClickException(f"{lines}\nNothing was imported.") from None
    click.echo(f"{len(outcomes)} outcomes: {news} new, {len(outcomes) - news} known before.")


@settlements.command("settle")
@click.argument("settlement")
@click.option(
    "--reference", help="The bank's reference, or the code of store credit, for the receipt."
)
@click.option("--paid-before", is_flag=True, help="Although it must not be paid any more, it is.")
def settle_one(settlement: str, reference: str | None, paid_before: bool) -> None:
    """Say that a settlement was paid; the customer gets the receipt."""
    settled = SettlementState.SETTLED
    _tell(Outcome(settlement, settled, bank_reference=reference, paid_before=paid_before))


@settlements.command("fail")
@click.argument("settlement")
@click.option("--reason", required=True, help="Why it could not be paid, or came back.")
@click.option("--came-back", is_flag=True, help="It was paid, and the money came back.")
def fail_one(settlement: str, reason: str, came_back: bool) -> None:
    """Say that a settlement could not be paid, or came back; the team gets the case."""
    _tell(Outcome(settlement, SettlementState.FAILED, reason=reason, came_back=came_back))


def _tell(outcome: Outcome) -> None:
    from mailagent.settling import reports_of, settle

    try:
        with reports_of(person := actor()) as connection:
            news = settle(connection, outcome, person)
    except SettlementProblem as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"{outcome.idempotency_key} is {outcome.state.value}{'' if news else ' already'}.")
