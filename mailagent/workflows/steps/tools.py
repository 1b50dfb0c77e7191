"""The tools that are steps of their own: what the agent may propose, withdraw and give stands in `proposal`,
`withdrawal` and `goodwill`.

What it looks up was a step of its own, too, in runs of 0.1.0-0010 and before; such a run goes on by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mailagent.workflows.steps import looks
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.goodwill import offer_goodwill
from mailagent.workflows.steps.proposal import propose_refund
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.withdrawal import withdraw_refund

TOOLS: Mapping[str, Callable[[Batch, Mapping[str, Any]], dict[str, Any]]] = {
    "find_my_orders": step(looks.find_my_orders),
    "look_at_order": step(looks.look_at_order),
    "propose_refund": propose_refund,
    "withdraw_refund": withdraw_refund,
    "offer_goodwill": offer_goodwill,
}
