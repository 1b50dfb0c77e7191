"""Where a refund stands, as its steps tell the run that goes through them: no effects here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from mailagent.domain.refunds.refund import RefundStatus


class State(TypedDict):
    """Where a refund stands, and how long its run may wait before it looks again. `outbound_ids`: mail to be
    sent first, such as the request to a manager. `wakes`: whether a message ends the wait."""

    status: str
    wait_seconds: float
    outbound_ids: list[str]
    wakes: bool


def state_of(
    status: RefundStatus,
    wait_seconds: float = 0,
    outbound_ids: Sequence[str] = (),
    wakes: bool = True,
) -> State:
    """Return a state as the run records it."""
    return State(
        status=status.value,
        wait_seconds=wait_seconds,
        outbound_ids=list(outbound_ids),
        wakes=wakes,
    )
