"""WooCommerce orders, in the format "CSV - one row per item" of its extension Customer/Order/Coupon
Export: every row repeats what belongs to the order as a whole. Prices are with their tax.

docs/orders.md says what becomes of each column."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent.adapters.order_files.csv_rows import CsvRow, parse_minor
from mailagent.adapters.order_files.export import Amounts, Export
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderProblem, OrderStatus

# What is said of the order as a whole, and must be the same in all its rows.
_SHARED = ("order_total", "refunded_total", "status", "billing_email", "order_currency")

_PENDING = ("pending", "on-hold", "failed", "checkout-draft", "processing")
_STATUS = {
    **dict.fromkeys(_PENDING, OrderStatus.PENDING),
    **dict.fromkeys(("completed", "refunded"), OrderStatus.SHIPPED),
    "cancelled": OrderStatus.CANCELLED,
}
_PAID = frozenset({"processing", "completed", "refunded"})


class WooCommerce(Export):
    system = "woocommerce"
    marks = ("order_id", "order_total", "item_quantity")
    needed = (
        "order_id order_date status shipping_total shipping_tax_total fee_total fee_tax_total"
        " order_total refunded_total order_currency payment_method billing_email item_name item_sku"
        " item_quantity item_subtotal item_subtotal_tax item_total item_total_tax"
    ).split()
    rounded = True
    group = "order_id"
    order_id = ("order_number", "order_id")
    email = "billing_email"
    customer_name = ("billing_first_name", "billing_last_name")
    currency = "order_currency"
    placed_at = "order_date"
    sent_at = "completed_date"
    status = "status"
    # The database calls them "wc-completed" and so on; some exports do, too.
    statuses = _STATUS | {f"wc-{word}": status for word, status in _STATUS.items()}
    quantity = "item_quantity"
    item_name = "item_name"
    sku = "item_sku"
    no_sku = "unknown_product"  # of a product that was deleted since
    total = "order_total"
    refunded = "refunded_total"
    payment_id = ("transaction_id",)
    method = "payment_method"

    def check_rows(self, rows: Sequence[CsvRow]) -> None:
        for row in rows[1:]:
            for column in _SHARED:
                if row.text(column) != rows[0].text(column):
                    raise OrderProblem(
                        f"{column}: {row.text(column)!r}, but {rows[0].text(column)!r} on line"
                        f" {rows[0].line_no} of the same order"
                    )

    def price(self, row: CsvRow, quantity: int, currency: str) -> tuple[int, int]:
        """Return price and discount. WooCommerce knows what all units cost, before and after discounts;
        the price of one is that divided, rounded up, and the discount makes up the difference."""
        before = self.minor(row, currency, "item_subtotal", "item_subtotal_tax")
        after = self.minor(row, currency, "item_total", "item_total_tax")
        # A line may have been made dearer by hand.
        price = -(-max(before, after) // quantity)
        return price, price * quantity - after

    def amounts(self, row: CsvRow, net: Sequence[int], currency: str) -> Amounts:
        """Return discount, shipping and tax. Fees go with the carriage, a negative one is a discount.

        The rows must come to the order's total but for the cents that rounding moved: one for each line,
        the carriage and the fees. These are tax or discount.
        """
        shipping = self.minor(row, currency, "shipping_total", "shipping_tax_total")
        fee = parse_minor(row, currency, "fee_total", "fee_tax_total", rounded=True)
        total, parts = self.minor(row, currency, "order_total"), sum(net) + shipping + fee
        cents = total - parts
        if abs(cents) > len(net) + 2:
            raise OrderProblem(
                f"order_total: {Money(total, currency)}, but items, shipping and fees come to"
                f" {Money(parts, currency)}"
            )
        return Amounts(max(0, -fee) + max(0, -cents), shipping + max(0, fee), max(0, cents))

    def paid(self, row: CsvRow, total: int, refunded: int, currency: str) -> int:
        is_paid = (
            row.text("status").removeprefix("wc-") in _PAID or row.text("paid_date") or refunded
        )
        return total if is_paid else 0
