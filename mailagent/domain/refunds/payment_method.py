"""What payment methods are called: one word of ours for what shop systems write in many ways.

A method that is not known keeps its own word. What it is called in a mail stands in templates/mail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# As WooCommerce calls its gateways and Shopify its methods in their exports.
_KNOWN: Mapping[str, str] = {
    **dict.fromkeys(
        "stripe stripe_cc stripe_upe cards shopify_payments woocommerce_payments woopayments"
        " square square_credit_card".split(),
        "card",
    ),
    **dict.fromkeys(
        "creditcard mollie_wc_gateway_creditcard braintree_credit_card".split(), "credit_card"
    ),
    **dict.fromkeys(
        "ppcp_gateway ppec_paypal paypal_express paypal_express_checkout braintree_paypal"
        " stripe_paypal mollie_wc_gateway_paypal".split(),
        "paypal",
    ),
    **dict.fromkeys("giftcard gift_cards shopify_gift_card".split(), "gift_card"),
    **dict.fromkeys("bacs bank_deposit wire_transfer".split(), "bank_transfer"),
    **dict.fromkeys("cod cash_on_delivery_cod".split(), "cash_on_delivery"),
    **dict.fromkeys("check cheques checks".split(), "cheque"),
    **dict.fromkeys("stripe_sepa stripe_sepa_debit sepa".split(), "sepa_debit"),
    **dict.fromkeys("klarna_payments kco stripe_klarna".split(), "klarna"),
    **dict.fromkeys("amazon_payments amazon_payments_advanced".split(), "amazon_pay"),
    **dict.fromkeys("shop_pay_installments shopify_installments".split(), "shop_pay"),
}
# A rule for the wider word holds for the narrower one.
_KIND_OF: Mapping[str, str] = {
    **dict.fromkeys("credit_card debit_card apple_pay google_pay shop_pay".split(), "card"),
    "sepa_debit": "direct_debit",
}
_SHOPS_OWN = frozenset({"gift_card", "store_credit", "voucher"})
OUR_WORDS = frozenset(
    {*_KNOWN.values(), *_KIND_OF, *_KIND_OF.values(), *_SHOPS_OWN, "cash", "invoice", "manual"}
)


def method_word(method: str) -> str:
    """Return our word for one method, such as `gift_card` for "Gift Card"; an unknown one in the same
    way of writing."""
    word = re.sub(r"[\W_]+", "_", method.casefold()).strip("_")
    return _KNOWN.get(word, word)


def method_words(method: str) -> tuple[str, ...]:
    """Return our word for each method of a payment: exports join several with a "+"."""
    return tuple(dict.fromkeys(filter(None, map(method_word, method.split("+")))))


def imported_method(method: str) -> str:
    """Return what an export calls a method as we keep it: our words, and its own for an unknown one."""
    parts = [" ".join(each.split()) for each in method.split("+")]
    return " + ".join(_imported(each) for each in parts if each) or "unknown"


def with_wider(word: str) -> tuple[str, ...]:
    """Return a method's word, and the wider one that it is a kind of: rules for either hold for it."""
    return (word, _KIND_OF[word]) if word in _KIND_OF else (word,)


def is_shops_own(method: str) -> bool:
    """Say whether no bank has a part in it: a gift card, a voucher, credit with the shop."""
    words = method_words(method)
    return bool(words) and _SHOPS_OWN.issuperset(words)


def _imported(method: str) -> str:
    word = method_word(method)
    return word if word in OUR_WORDS else method
