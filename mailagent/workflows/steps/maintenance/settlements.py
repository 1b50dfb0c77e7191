"""Tells the operators of refunds that the ledger recorded and that the shop has not paid in time."""

from __future__ import annotations

from mailagent import services
from mailagent.store.refunds import settlements, stops
from mailagent.workflows.steps.notices import tell_operators
from mailagent.workflows.steps.recording import step

SETTLEMENTS_AT_ONCE = 500
NAMED = 20


@step
def tell_overdue_settlements() -> int:
    """Mail the operators, once for each, about settlements past their date; return how many there are."""
    live = services.current()
    with live.database.transaction() as connection:
        due = settlements.take_overdue(connection, live.now(), SETTLEMENTS_AT_ONCE)
        if due:
            stopped = stops.find_stops(connection, (each.refund_id for each in due))
            many = f"{len(due)} refunds are" if len(due) > 1 else "A refund is"
            lines = [
                "They are approved and in the ledger, and nothing says that they were paid. Pay them, and tick "
                "them off: the customers then get their receipts.",
                *(
                    f"{each.to_give}{' of store credit' if each.credit else ''} for order"
                    f" {each.order_id}, due {each.due_at:%Y-%m-%d}"
                    f"{_unless(stopped.get(each.refund_id))}"
                    for each in due[:NAMED]
                ),
            ]
            if len(due) > NAMED:
                lines.append(f"{len(due) - NAMED} more.")
            button = ("See what waits to be paid", f"{live.shop.public_url}/ops/settlements")
            key = f"settlements:{due[0].idempotency_key}"
            tell_operators(connection, f"{many} not paid in time", lines, key, button)
    return len(due)


def _unless(stop: str | None) -> str:
    return f"; do not pay it: {stop}" if stop else ""
