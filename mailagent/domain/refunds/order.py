"""Orders as the shop hands them over: who bought what, and how it was paid.

How one is written down is in `order_record`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mailagent.domain.money import Money


class OrderStatus(StrEnum):
    PENDING = "pending"
    SHIPPED = "shipped"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of an order. The same item may stand on two lines; `line_no` (from 1) tells them apart.

    `discount_minor` is off the whole line, all its units together. `category` is the shop's own word,
    which its refund policy may name. What is on final sale was sold as not to be returned.
    """

    line_no: int
    item_id: str
    name: str
    quantity: int
    unit_price: Money
    discount_minor: int = 0
    category: str | None = None
    final_sale: bool = False

    @property
    def net_minor(self) -> int:
        """What all units of the line cost together, in minor units, less the line's own discount."""
        return self.quantity * self.unit_price.minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment for an order. `charged_back_at`: since when the bank takes it back for the customer.
    `refunded_minor` is what the shop says it gave back of it by other ways than ours, in minor units."""

    payment_id: str
    method: str
    amount: Money
    charged_back_at: datetime | None = None
    refunded_minor: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """An order. Of its amounts in minor units, `discount_minor` is off all lines together, beside what
    each line says itself; `shipping_minor` was paid for carriage; `tax_minor` came on top of both, and
    is 0 where prices include it."""

    order_id: str
    customer_email: str
    customer_name: str
    currency: str
    placed_at: datetime
    delivered_at: datetime | None
    status: OrderStatus
    lines: tuple[OrderLine, ...]
    payments: tuple[Payment, ...]
    discount_minor: int = 0
    shipping_minor: int = 0
    tax_minor: int = 0

    @property
    def paid(self) -> Money:
        """What the customer paid in all."""
        return Money(sum(payment.amount.minor for payment in self.payments), self.currency)

    @property
    def charged_back(self) -> Money:
        """What of it the customer's bank takes back, or has taken."""
        return Money(
            sum(each.amount.minor for each in self.payments if each.charged_back_at), self.currency
        )

    def __post_init__(self) -> None:
        goods = sum(line.net_minor for line in self.lines)
        if not 0 <= self.discount_minor <= goods:
            raise ValueError(f"order {self.order_id} takes more off its lines than they cost")


class OrderProblem(ValueError):
    """An order record that cannot be taken; the text names the field and what to write there."""
