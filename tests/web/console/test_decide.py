"""From the console to the page of an approval: a lost mail blocks nobody, and a role decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mailagent import mailers
from mailagent.domain.refunds.escalation import Skip
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.console import run_subjects
from mailagent.store.refunds import refunds
from tests.cast import ADA, MAX, MONA, OLGA, TESS, YESTERDAY, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, post_form
from tests.round_trips.approvals import decide, link_in
from tests.web.console.pages import SCRIPT, plain
from tests.web.questions import Question, everything

PATH = "/ops/refunds/refund_1/decide"


def test_a_manager_decides_without_the_mail_as_themselves(question: Question) -> None:
    client = question.shop.log_in(MAX)
    before = everything(question.shop)
    answer = client.get(PATH)
    assert answer.status_code == 303
    assert everything(question.shop) == before
    page = client.get(answer.location).text
    assert f"This link was sent to <strong>{MAX}</strong>" in page
    post_form(client, answer.location, decision="approve")
    assert (question.refund().status, question.refund().decided_by) == (RefundStatus.APPROVED, MAX)
    assert client.get(PATH).location == "/ops/refunds/refund_1"


@ONE_DATABASE
def test_the_refunds_page_begins_with_the_button_for_whoever_may_decide(dear: Question) -> None:
    button, path = f'<a class="button" href="{PATH}">Decide</a>', "/ops/refunds/refund_1"

    def page(email: str) -> str:
        return dear.shop.log_in(email).get(path).text

    assert page(MONA).index(button) < page(MONA).index("For <a")
    assert "Why a manager is asked" in page(MONA)
    assert button not in page(TESS)
    for email, shown in ((MONA, False), (ADA, True)):  # whose order it is
        with dear.shop.live.database.transaction() as connection:
            connection.execute(schema.orders.update().values(customer_email=email))
        assert (button in page(MONA)) is shown
    dear.decide("approve", MONA)
    assert button not in page(MONA)
    assert "Another manager decides" in page(MONA)
    assert button in page(MAX)
    dear.decide("approve", MAX)
    assert button not in page(MAX)
    assert "Why it was decided so" in page(MAX)


@ONE_DATABASE
@pytest.mark.parametrize("email", [TESS, OLGA])
def test_nobody_but_a_manager_is_led_to_a_decision(question: Question, email: str) -> None:
    assert question.shop.log_in(email).get(PATH).status_code == 403
    assert question.shop.client.get(PATH).location.startswith("/ops/login")


DELIVERED = YESTERDAY - timedelta(days=10)  # as `tests.cast.order` has it

# --- refunds --------------------------------------------------------------------------------------


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
        "above the limit of $1,000.00.", "mona@shop.example was asked for the decision",
        "Decision: approved , $999.00 by mona@shop.example", "pay_W2001 refunded", "Paid by card",
        "Left of what was paid $1,499.00", f"Delivered {DELIVERED:%-d %B %Y}", "Refund paid by ledger",
        "Receipt of a refund", "holds a link that is only for its reader", "pay_W2001",
    ):  # fmt: skip
        assert shown in words, shown
    assert "<script>" not in page
    assert "/approvals/" not in page
    assert link_in(request.text).rpartition("/")[2] not in page
    assert "/ops/runs/" not in page
    assert "/ops/runs/" in busy_shop.log_in(OLGA).get(path).text


def test_a_mail_about_a_refund_is_told_with_its_order_and_amount(question: Question) -> None:
    with question.shop.live.database.transaction() as connection:
        mail = mailers.ask_next_manager(connection, question.refund_id, MONA, Skip.AWAY)
        assert mail is not None
        subject = run_subjects.list_subjects(connection, [mail])[mail]
        refund = refunds.load(connection, question.refund_id)
    assert subject.tell_order() == f"order {refund.order_id}, {refund.asked.tell()}"
