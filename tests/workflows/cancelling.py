"""A shop's own order system, as a cancellation meets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mailagent.domain.orders.source import (
    Cancelled,
    CancelOutcome,
    CancelRequest,
    OrderPage,
    SourceProblem,
)
from mailagent.domain.refunds.order import Order


@dataclass
class PlayedSource:
    """Answers with `says`, next first; a callable is called, a problem raised. `asked`: the requests. `orders`:
    what it knows of each order."""

    says: list[CancelOutcome | SourceProblem | Callable[[], CancelOutcome]]
    orders: Callable[[str], Order | None]
    name: str = "shop"
    asked: list[CancelRequest] = field(default_factory=list)

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        return OrderPage(())

    def load_order(self, order_id: str) -> Order | None:
        return self.orders(order_id)

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        self.asked.append(request)
        answer = self.says.pop(0)
        if isinstance(answer, SourceProblem):
            raise answer
        return answer if isinstance(answer, Cancelled) or not callable(answer) else answer()
