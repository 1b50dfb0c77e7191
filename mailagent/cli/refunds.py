"""`flask refunds …`: what was asked for, decided and paid."""

from __future__ import annotations

from typing import Any

import click

from mailagent import services
from mailagent.cli.printing import Commands, instant, print_json, print_table
from mailagent.cli.reconcile import events, reconcile
from mailagent.domain.refunds.refund import Refund
from mailagent.store.refunds import approvals
from mailagent.store.refunds import refunds as store

refunds = Commands("refunds", help="Refunds: asked for, decided, paid.")
refunds.add_command(reconcile)
refunds.add_command(events)


@refunds.command("list")
@click.option("--order", "order_id", help="Only the refunds of this order.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_refunds(order_id: str | None, as_json: bool) -> None:
    """List refunds, oldest first."""
    with services.current().database.snapshot() as connection:
        found = store.list_all(connection, order_id)
        deciders = approvals.list_deciders(connection)
    if as_json:
        print_json([_record(refund, deciders.get(refund.refund_id)) for refund in found])
        return
    print_table(
        ("refund", "order", "amount", "status", "requested", "decided by", "paid"),
        [
            (
                refund.refund_id,
                refund.order_id,
                refund.amount,
                refund.status,
                refund.requested_at,
                refund.decided_by,
                refund.paid_at,
            )
            for refund in found
        ],
        "There are no refunds.",
    )


def _record(refund: Refund, deciders: tuple[str, str | None] | None) -> dict[str, Any]:
    first, second = deciders or (None, None)
    return {
        "refund_id": refund.refund_id,
        "order_id": refund.order_id,
        "conversation_id": refund.conversation_id,
        "amount": refund.amount.decimal(),
        "currency": refund.amount.currency,
        "item_ids": list(refund.item_ids),
        "reason": refund.reason.value,
        "status": refund.status.value,
        "requested_at": instant(refund.requested_at),
        "decided_by": refund.decided_by,
        "decided_at": instant(refund.decided_at),
        "note": refund.note,
        "gateway": refund.gateway,
        "gateway_reference": refund.gateway_reference,
        "paid_at": instant(refund.paid_at),
        "four_eyes": refund.four_eyes,
        "first_decided_by": first,
        "countersigned_by": second,
    }
