"""The `delivery` workflow: sends one mail, or finds out what became of it.

The runs that answer mail and pay refunds send their own mail in a step, and enqueue this workflow only if that
fails. All other mail, such as notices and answers from the console, is sent by this workflow.
The body stands alone, so that a change to it, which recorded runs would replay, is noticed.
"""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.delivery.send import look_at_delivery, send_mail_async


@DBOS.workflow(name=engine.DELIVERY, max_recovery_attempts=500)
async def delivery(outbound_id: str) -> str:
    """Send one outbound mail, and try again after pauses until its outcome is known. Returns its final
    state."""
    while True:
        outlook = await look_at_delivery(outbound_id)
        match outlook["kind"]:
            case "send":
                await send_mail_async(outbound_id)
            case "wait":
                await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=outlook["wait_seconds"])
            case _:
                return outlook["status"]
