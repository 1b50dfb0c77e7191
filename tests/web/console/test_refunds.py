"""A refund's page: what was asked, why, who decided and what was paid; and what is nobody else's to see."""

from __future__ import annotations

from typing import Any

from mailagent.domain.refunds.order import Order
from tests.cast import ADA, MONA, OLGA, TESS, order
from tests.harness import Harness
from tests.round_trips.approvals import decide, link_in
from tests.web.console.pages import SCRIPT, plain


def _dear(customer: dict[str, str], name: str) -> Order:
    items: list[dict[str, Any]] = [
        {"item_id": "D1", "name": name, "quantity": 1, "unit_price": "1499.00"}
    ]
    payments = [{"payment_id": "pay_W2001", "method": "card", "amount": "1499.00"}]
    return order("W2001", customer=customer, items=items, payments=payments)


def test_a_refund_is_told_from_question_to_receipt(busy_shop: Harness) -> None:
    customer = {"email": ADA, "name": f"Ada {SCRIPT}"}
    busy_shop.stock(_dear(customer, f"Desk {SCRIPT}"))
    busy_shop.write(f"The desk of order W2001 is damaged, please refund it. {SCRIPT}")
    (request,) = busy_shop.wait_for_mails(MONA)
    (refund,) = busy_shop.refunds()
    path = f"/ops/refunds/{refund.refund_id}"
    waiting = busy_shop.log_in(MONA).get(path).text
    assert f'href="{path}/decide"' in waiting
    assert f'href="{path}/decide"' not in busy_shop.log_in(TESS).get(path).text
    decide(busy_shop, link_in(request.text), "approve", note=f"Sorry. {SCRIPT}", amount="999.00")
    busy_shop.wait_for_refund("paid")
    busy_shop.wait_for_mails(ADA, 2)
    page = busy_shop.log_in(TESS).get(path).text
    words = plain(page)
    for shown in (
        "The amount is above what is refunded without asking", "mona@shop.example was asked to approve",
        "Decision: approved , $999.00 by mona@shop.example", "pay_W2001 refunded", "Paid by card",
        "Left of what was paid 1499.00 USD", "Refund paid by ledger", "Receipt of a refund",
        "holds a link that is only for its reader", "pay_W2001",
    ):  # fmt: skip
        assert shown in words, shown
    assert "<script" not in page
    assert "/approvals/" not in page
    assert link_in(request.text).rpartition("/")[2] not in page
    assert "/ops/runs/" not in page
    assert "/ops/runs/" in busy_shop.log_in(OLGA).get(path).text
