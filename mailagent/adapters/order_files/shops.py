"""The order exports of Shopify and WooCommerce: their columns and their own rules.

docs/orders.md explains how we use each column."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent.adapters.order_files.export import Amounts, CsvRow, Export, parse_minor
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderProblem, OrderStatus

_SHOPIFY_STATUS = {
    "fulfilled": OrderStatus.SHIPPED,
    "": OrderStatus.PENDING,
    "unfulfilled": OrderStatus.PENDING,
    "partial": OrderStatus.PENDING,  # a part of it is not sent yet
    "restocked": OrderStatus.PENDING,  # it is back at the shop
}
# How much of an order was captured, by its financial status: all, all but what is outstanding, nothing.
_SHOPIFY_PAID = frozenset({"paid", "partially_refunded", "refunded"})
_PARTLY_PAID = "partially_paid"
_UNPAID = frozenset({"pending", "authorized", "voided", "expired", "unpaid"})


class Shopify(Export):
    """Shopify (admin, Orders, Export, CSV): a row for each line of an order. Only the first has what belongs
    to the order as a whole."""

    system = "shopify"
    marks = ("Name", "Financial Status", "Lineitem quantity")
    needed = (
        "Name,Email,Financial Status,Fulfillment Status,Currency,Subtotal,Shipping,Taxes,Total,"
        "Discount Amount,Created at,Cancelled at,Lineitem quantity,Lineitem name,Lineitem price,"
        "Lineitem sku,Payment Method,Refunded Amount"
    ).split(",")
    rounded = False
    group = "Name"
    order_id = ("Name",)
    email = "Email"
    customer_name = ("Billing Name",)
    currency = "Currency"
    placed_at = "Created at"
    sent_at = "Fulfilled at"
    status = "Fulfillment Status"
    statuses = _SHOPIFY_STATUS
    cancelled_at = "Cancelled at"
    quantity = "Lineitem quantity"
    item_name = "Lineitem name"
    sku = "Lineitem sku"
    total = "Total"
    refunded = "Refunded Amount"
    payment_id = ("Payment References", "Payment Reference", "Payment ID")
    method = "Payment Method"

    def check_rows(self, rows: Sequence[CsvRow]) -> None:
        """Raise OrderProblem for a second order with the same name: further rows of an order have no status of
        their own."""
        for row in rows[1:]:
            if row.text("Financial Status") or row.text("Total"):
                raise OrderProblem(f"Name: {row.text('Name')!r} comes again on line {row.line_no}")

    def price(self, row: CsvRow, quantity: int, currency: str) -> tuple[int, int]:
        price = self.minor(row, currency, "Lineitem price")
        discount = self.minor(row, currency, "Lineitem discount")
        if discount > quantity * price:
            raise OrderProblem(
                f"Lineitem discount: {Money(discount, currency)} off"
                f" {Money(quantity * price, currency)}"
            )
        return price, discount

    def amounts(self, row: CsvRow, net: Sequence[int], currency: str) -> Amounts:
        """Return discount, shipping and tax. They must add up: the lines less their discounts to the
        subtotal, and that with shipping, and taxes where they come on top, to the total.

        The discount is what the lines cost above the subtotal: "Discount Amount" may also have been given
        on the carriage, and counts what the lines say themselves.
        """
        subtotal, shipping, taxes, duties, total, most = (
            self.minor(row, currency, column)
            for column in ("Subtotal", "Shipping", "Taxes", "Duties", "Total", "Discount Amount")
        )
        goods = sum(net)
        if not 0 <= goods - subtotal <= most:
            raise OrderProblem(
                f"Subtotal: {Money(subtotal, currency)}, but the lines come to"
                f" {Money(goods, currency)} and the discount is {Money(most, currency)}"
            )
        untaxed = subtotal + shipping
        if total not in (untaxed, untaxed + duties, untaxed + taxes + duties):
            raise OrderProblem(
                f"Total: {Money(total, currency)}, but subtotal and shipping come to"
                f" {Money(untaxed, currency)}, and with taxes to"
                f" {Money(untaxed + taxes + duties, currency)}"
            )
        return Amounts(goods - subtotal, shipping, total - untaxed)

    def paid(self, row: CsvRow, total: int, refunded: int, currency: str) -> int:
        status = row.text("Financial Status")
        if status in _SHOPIFY_PAID:
            return total
        if status in _UNPAID:
            return 0
        if status != _PARTLY_PAID:
            raise OrderProblem(f"Financial Status: {status!r} is not known")
        if not row.text("Outstanding Balance"):
            raise OrderProblem("Outstanding Balance: is missing, although it is partially_paid")
        outstanding = self.minor(row, currency, "Outstanding Balance")
        if outstanding > total:
            raise OrderProblem(
                f"Outstanding Balance: is above the total of {Money(total, currency)}"
            )
        return total - outstanding


# The columns of the order as a whole, which must be the same in all its rows.
_SHARED = ("order_total", "refunded_total", "status", "billing_email", "order_currency")

_PENDING = ("pending", "on-hold", "failed", "checkout-draft", "processing")
WOO_STATUS = {
    **dict.fromkeys(_PENDING, OrderStatus.PENDING),
    **dict.fromkeys(("completed", "refunded"), OrderStatus.SHIPPED),
    "cancelled": OrderStatus.CANCELLED,
}


def woo_is_paid(status: str, method: str) -> bool:
    """Return whether an order of WooCommerce with this status and payment method was paid. Cash on delivery is
    `processing` from the checkout on, and paid when it is completed:
    https://github.com/woocommerce/woocommerce, `WC_Gateway_COD`."""
    return status in ("completed", "refunded") or (status == "processing" and method != "cod")


class WooCommerce(Export):
    """WooCommerce, "CSV - one row per item" of its extension Customer/Order/Coupon Export: every row repeats
    what belongs to the order as a whole. Prices are with their tax."""

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
    # WooCommerce's database has "wc-completed" and so on, and so do some exports.
    statuses = WOO_STATUS | {f"wc-{word}": status for word, status in WOO_STATUS.items()}
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
        # A person of the shop may have raised the price of a line.
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
        status, method = row.text("status").removeprefix("wc-"), row.text(self.method)
        is_paid = woo_is_paid(status, method) or row.text("paid_date") or refunded
        return total if is_paid else 0
