"""The refund's body of a release to come: before it pays it looks once more. Three ways to write that, of
which one breaks every run that had paid. Not a body of ours: nothing but tests runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dbos import DBOS

from mailagent import engine, services
from mailagent.store import audit
from mailagent.workflows.steps.delivery.send import send_mail_async
from mailagent.workflows.steps.refund.decision import claim_refund, look_at_decision, tell_customer
from mailagent.workflows.steps.refund.payment import pay_refund

LOOKED = "looked once more"
CHANGE = "look once more"


async def _look_once_more(refund_id: str) -> None:
    """Note it where a test sees it. The step is made here and not as ours are, so that no list of our
    steps has it."""

    def look() -> None:
        live = services.current()
        with live.database.transaction() as connection:
            audit.record(connection, live.now(), audit.CLOCK, LOOKED, refund_id)  # type: ignore[arg-type]  # of a release to come

    await DBOS.run_step_async({"name": "look_once_more"}, look)


async def unguarded(refund_id: str) -> str:
    """Look always: a run that paid under the old code has a payment recorded where this stands."""
    return await _see_through(refund_id, _always)


async def guarded_where_it_stands(refund_id: str) -> str:
    """Look unless the run had passed this point: one that waits for its manager looks, too."""
    return await _see_through(refund_id, lambda: DBOS.patch_async(CHANGE))


async def guarded_from_the_start(refund_id: str) -> str:
    """Look in runs that begin with this code; whatever had begun before goes on as it began."""
    looks = await DBOS.patch_async(CHANGE)

    async def as_begun() -> bool:
        return looks

    return await _see_through(refund_id, as_begun)


async def _always() -> bool:
    return True


async def _see_through(refund_id: str, looks: Callable[[], Awaitable[bool]]) -> str:
    state = await claim_refund(refund_id)
    while state["status"] == "awaiting_approval":
        for outbound_id in state["outbound_ids"]:
            await send_mail_async(outbound_id)
        await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=state["wait_seconds"])
        state = await look_at_decision(refund_id)
    if state["status"] == "approved" and await looks():
        await _look_once_more(refund_id)
    while state["status"] == "approved":
        state = await pay_refund(refund_id)
        if state["status"] == "approved":
            await DBOS.sleep_async(state["wait_seconds"])
    told = await tell_customer(refund_id)
    while isinstance(told, dict):
        await DBOS.recv_async(engine.WAKE_TOPIC, timeout_seconds=told["wait_seconds"])
        told = await tell_customer(refund_id)
    for outbound_id in told:
        await send_mail_async(outbound_id)
    return state["status"]
