"""Payment methods: what shop systems call them becomes one word of ours."""

from __future__ import annotations

import pytest

from mailagent.domain.refunds.order import imported_method, is_shops_own, method_labels


@pytest.mark.parametrize(
    ("exported", "ours"),
    [
        ("stripe", "card"),
        ("Shopify Payments", "card"),
        ("woocommerce payments", "card"),
        ("woocommerce_payments", "card"),
        ("bacs", "bank_transfer"),
        ("cod", "cash_on_delivery"),
        ("Cash on Delivery (COD)", "cash_on_delivery"),
        ("cheque", "cheque"),
        ("paypal", "paypal"),
        ("ppcp-gateway", "paypal"),
        ("shop_pay", "shop_pay"),
        ("manual", "manual"),
        ("Gift Card", "gift_card"),
        ("Shopify Payments + Gift Card", "card + gift_card"),
        ("gift_card+Twint  QR", "gift_card + Twint QR"),
        ("Twint_QR", "Twint_QR"),
        ("", "unknown"),
        (" + ", "unknown"),
    ],
)
def test_an_exports_method_becomes_our_word_where_it_is_known(exported: str, ours: str) -> None:
    assert imported_method(exported) == ours
    assert imported_method(ours) == ours


@pytest.mark.parametrize(
    ("method", "words"),
    [("Card + Gift-Card", ("card", "gift_card")), ("card + stripe", ("card",)), ("+", ())],
)
def test_a_payment_of_several_methods_has_the_word_of_each(
    method: str, words: tuple[str, ...]
) -> None:
    assert method_labels(method) == words


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("Gift Card", True),
        ("voucher + store_credit", True),
        ("card + gift_card", False),
        ("", False),
    ],
)
def test_no_bank_has_a_part_in_what_the_shop_keeps_itself(method: str, own: bool) -> None:
    assert is_shops_own(method) is own
