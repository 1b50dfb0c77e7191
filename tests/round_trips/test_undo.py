"""The minutes in which a manager can take a decision back, with the refund's run waiting for their end."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.cast import ADA, DESK_WISH, MONA, big_order
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in


def ask(shop: Harness) -> str:
    """Have Mona asked; return her link, once the customer has the first answer."""
    shop.stock(big_order())
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    shop.wait_for_mails(ADA)
    return link_in(request.text)


@pytest.mark.both_databases
def test_a_worker_that_stops_in_between_pays_once_when_the_decision_stands(
    tmp_path: Path, database_url: str
) -> None:
    seconds = 4
    with open_shop(tmp_path, database_url, {"APPROVAL_UNDO_SECONDS": str(seconds)}) as shop:
        with running(shop):
            decide(shop, ask(shop), "approve")
            assert shop.refunds()[0].status == "awaiting_approval"
            assert len(shop.mails_to(ADA)) == 1
        with running(shop):
            refund = shop.wait_for_refund("paid")
            shop.wait_for_mails(ADA, 2)
    assert refund.decided_at is not None
    assert refund.paid_at is not None
    assert refund.paid_at >= refund.decided_at + timedelta(seconds=seconds)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1


@pytest.mark.both_databases
def test_what_was_taken_back_is_not_paid_and_can_be_decided_again(
    tmp_path: Path, database_url: str
) -> None:
    with open_shop(tmp_path, database_url, {"APPROVAL_UNDO_SECONDS": "3"}) as shop, running(shop):
        link = ask(shop)
        decide(shop, link, "approve")
        assert "You have taken back your decision" in decide(shop, link, "undo")
        decide(shop, link, "reject", note="Not damaged", note_shared="yes")
        shop.wait_for_refund("rejected")
        (_, outcome) = shop.wait_for_mails(ADA, 2)
        wait_until(shop.at_rest, 30, "the shop to come to rest")
        assert "Not damaged" in outcome.text
        assert shop.rows("SELECT 1 FROM ledger_entries") == []
