"""The `refund` workflow, one for each refund: waits for a manager's decision, pays, tells the customer.

Only this workflow asks the payment gateway to refund. It is async, so that waiting takes no thread. Messages
only wake it; it then reads its state from the database.
The body stands alone, so that a change to it, which recorded runs would replay, is noticed."""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.delivery.send import send_mail_async
from mailagent.workflows.steps.refund.decision import claim_refund, look_at_decision, tell_customer
from mailagent.workflows.steps.refund.payment import pay_refund


@DBOS.workflow(name=engine.REFUND, max_recovery_attempts=500)
async def refund(refund_id: str) -> str:
    """Wait for the decision on a refund, pay it, and tell the customer. Returns its final state."""
    state = await claim_refund(refund_id)
    while state["status"] == "awaiting_approval":
        for outbound_id in state["outbound_ids"]:  # to managers
            await send_mail_async(outbound_id)
        await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=state["wait_seconds"])
        state = await look_at_decision(refund_id)
    while state["status"] == "approved":
        state = await pay_refund(refund_id)
        if state["status"] == "approved":
            if state["wakes"]:
                await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=state["wait_seconds"])
            else:
                await DBOS.sleep_async(state["wait_seconds"])
    told = await tell_customer(refund_id)
    while not isinstance(told, list):  # the receipt waits for other refunds of the same mail
        await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=told["wait_seconds"])
        told = await tell_customer(refund_id)
    for outbound_id in told:
        await send_mail_async(outbound_id)
    return state["status"]
