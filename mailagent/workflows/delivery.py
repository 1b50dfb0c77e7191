"""Sees to it that a mail which did not go out at once goes out later, or is known not to.

The other workflows send their mail themselves; this one is woken only when that did not work.
"""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.delivery.send import look_at_delivery, send_mail_async


@DBOS.workflow(name=engine.DELIVERY, max_recovery_attempts=500)
async def delivery(outbound_id: str) -> str:
    """See one mail of ours out. Returns the state it ended in."""
    while True:
        outlook = await look_at_delivery(outbound_id)
        match outlook["kind"]:
            case "send":
                await send_mail_async(outbound_id)
            case "wait":
                await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=outlook["wait_seconds"])
            case _:
                return outlook["status"]
