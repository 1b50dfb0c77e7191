"""Where a refund stands, as its steps tell the run that goes through them: no effects here."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from mailagent.domain.refund import RefundStatus


class State(TypedDict):
    """Where a refund stands, and how long its run may sleep before it looks again. `outbound_ids`:
    mail to be sent first, such as the question to a second manager; older records have none.
    `wakes`: a bell ends the sleep, because the gateway itself says when there is something to see.
    `looked`: whoever is to decide was written to when the run claimed its refund; older records have no word
    of it."""

    status: str
    wait_seconds: float
    outbound_ids: NotRequired[list[str]]
    wakes: NotRequired[bool]
    looked: NotRequired[bool]


def state_of(status: RefundStatus, wait_seconds: float = 0) -> State:
    """Return a state; `wait_seconds` is how long the run may sleep."""
    return State(status=status.value, wait_seconds=wait_seconds)
