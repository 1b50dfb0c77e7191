"""From the console to the page of an approval: a lost mail blocks nobody, and a role decides nothing."""

from __future__ import annotations

import pytest

from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from tests.cast import ADA, MAX, MONA, OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.harness import post_form
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


@ONE_DATABASE
def test_a_refund_that_does_not_exist_is_not_found(question: Question) -> None:
    answer = question.shop.log_in(MONA).get("/ops/refunds/refund_9/decide")
    assert answer.status_code == 404
