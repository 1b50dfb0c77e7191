"""What an erasure leaves of the reasons why a refund was not paid: what code and gateways wrote, and no words
of people."""

from __future__ import annotations

import pytest

from mailagent.domain.refunds.payment import Refused
from mailagent.engine import REFUND, run_id_of
from mailagent.store.refunds.stops import CANCELLED
from tests.cast import MONA
from tests.databases import ONE_DATABASE
from tests.harness import Harness, post_form
from tests.workflows.erasing import erase
from tests.workflows.paying import CARD, approved, moody, pay
from tests.workflows.trouble import once, set_run, watched

pytestmark = ONE_DATABASE


def problems(shop: Harness) -> set[str]:
    return {row.problem for row in shop.rows("SELECT problem FROM refund_payments")} - {None}


def test_a_managers_reason_goes(shop: Harness) -> None:
    refund_id = approved(shop).refund_id
    set_run(shop, run_id_of(REFUND, refund_id), "CANCELLED")
    page, client = f"/ops/refunds/{refund_id}", shop.log_in(MONA)

    def refuse() -> None:
        assert post_form(client, f"{page}/refuse", page, reason="Ada lied.").status_code == 303

    with watched("pay_refund intended", once(refuse)):
        pay(refund_id)
    assert problems(shop) == {"Ada lied."}
    erase(shop)
    assert problems(shop) == {"erased"}


@pytest.mark.parametrize("why", ["charge_disputed", CANCELLED])
def test_what_a_gateway_or_code_wrote_stays(shop: Harness, why: str) -> None:
    refund_id = approved(shop).refund_id
    moody(shop, {CARD: [Refused(why)]})
    assert pay(refund_id)["status"] == "failed"
    (before,) = shop.refunds()
    assert f"({why})" in str(before.failure)
    erase(shop)
    (after,) = shop.refunds()
    assert (problems(shop), after.failure) == ({why}, before.failure)
