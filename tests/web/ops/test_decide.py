"""From the console to the page of an approval: a lost mail blocks nobody, and a role decides nothing."""

from __future__ import annotations

import pytest

from mailagent.domain.refund import RefundStatus
from tests.cast import MAX, MONA, OLGA, TESS
from tests.stage import post_form
from tests.web.test_approvals import Question, everything, question
from tests.web.test_approvals_four_eyes import ONE_DATABASE

__all__ = ["question"]

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
@pytest.mark.parametrize("email", [TESS, OLGA])
def test_nobody_but_a_manager_is_led_to_a_decision(question: Question, email: str) -> None:
    assert question.shop.log_in(email).get(PATH).status_code == 403
    assert question.shop.client.get(PATH).location.startswith("/ops/login")


@ONE_DATABASE
def test_a_refund_that_does_not_exist_is_not_found(question: Question) -> None:
    answer = question.shop.log_in(MONA).get("/ops/refunds/refund_9/decide")
    assert answer.status_code == 404
