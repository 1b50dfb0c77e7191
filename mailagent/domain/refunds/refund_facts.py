"""What a decision on a refund is based on: facts from rows, none of them from the model but its reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import RefundReason


@dataclass(frozen=True, slots=True)
class LineFacts:
    """What the rules look at in an order line. `final_sale` is what the line itself says."""

    item_id: str
    category: str | None = None
    final_sale: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """What was refunded without a person's decision, or is about to be: how many refunds, and how much
    in minor units of the order's currency."""

    count: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """What the decision is based on, gathered from rows while the order is locked.

    `remaining` is what was paid less every refund that was paid or is under way, here or elsewhere,
    and less `charged_back`, what the customer's bank takes back. `lines` are those of the refund.
    `photos` is how many pictures the customer sent in the conversation. `methods` are the payments'.
    `refused_before`: a refund that covers some of the same items was rejected or has expired.
    `items_before`: a refund that was paid, or is under way, has units of the same items.
    `worth` is what the items and the carriage come to; `amount` is less where less is left.
    `shared_payments` are the ids of payments that other orders name, too.
    `granted_unasked` counts for this order; `of_customer` and `of_day` are None where no cap asks.
    `seen_by_one` is what refunds of this order hold that no second person saw.
    """

    amount: Money
    remaining: Money
    order_status: OrderStatus
    delivered_at: datetime | None
    reason: RefundReason
    lines: tuple[LineFacts, ...]
    methods: tuple[str, ...]
    photos: int
    charged_back: Money
    refused_before: bool
    shared_payments: tuple[str, ...]
    granted_unasked: Granted
    of_customer: Granted | None
    of_day: Granted | None
    seen_by_one: Money
    items_before: bool = False
    worth: Money | None = None

    @property
    def categories(self) -> tuple[str | None, ...]:
        return tuple(line.category for line in self.lines)
