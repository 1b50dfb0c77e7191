"""The `delivery` workflow: sends one mail that could not be sent at once, or finds out what became of it.

Other workflows send their mail in a step, and enqueue this one only if that fails.
"""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.delivery.send import look_at_delivery, send_mail_async


@DBOS.workflow(name=engine.DELIVERY, max_recovery_attempts=500)
async def delivery(outbound_id: str) -> str:
    """Send one outbound mail, with pauses. Returns its final state."""
    while True:
        outlook = await look_at_delivery(outbound_id)
        match outlook["kind"]:
            case "send":
                await send_mail_async(outbound_id)
            case "wait":
                await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=outlook["wait_seconds"])
            case _:
                return outlook["status"]
