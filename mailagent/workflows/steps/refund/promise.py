"""Tells a customer at once until when the shop pays, if it promises a time."""

from __future__ import annotations

from mailagent import mailers, services
from mailagent.store.mail import outbound
from mailagent.store.refunds import orders, refunds, settlements


def promise(refund_id: str) -> None:
    """Write, once, until when the shop pays what its ledger has recorded of a refund."""
    live = services.current()
    with live.database.transaction() as connection:
        promised = settlements.list_promised(connection, refund_id)
        if not promised or outbound.is_recorded(connection, refunds.promise_key(refund_id)):
            return
        orders.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        outbound_id = mailers.write_promise(connection, refund, promised)
        live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
