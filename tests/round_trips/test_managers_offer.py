"""A manager offers part of the price instead of a refund: accepted by an answer, paid once, not asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.refunds.offer import Offer, OfferStatus
from mailagent.domain.remedies.remedy import Remedy, RemedyItem, RemedyKind, RemedyStatus
from mailagent.store.refunds import offers, remedies
from mailagent.workflows.tools import registry
from tests.cast import ADA, DESK_WISH, MONA, big_order, order
from tests.harness import Harness, open_shop, pass_time, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet

YES = "Yes, I accept your offer."
PART = "$449.70"  # 30 % of the desk


@pytest.fixture
def offering_shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    policy = tmp_path / "policy.toml"
    policy.write_text("[keep_offers]\nvalid_days = 5\n", "utf-8")
    with open_shop(tmp_path, database_url, {"REFUND_POLICY": str(policy)}) as shop, running(shop):
        shop.stock(big_order())
        yield shop


def ask(shop: Harness) -> str:
    shop.write(DESK_WISH)
    shop.wait_for_mails(ADA)
    (request,) = shop.wait_for_mails(MONA)
    assert 'With "offer 30"' in request.text
    return link_in(request.text)


def offer(shop: Harness, **form: str) -> str:
    """Have Mona offer 30 % on her page; return the text of the mail to Ada."""
    page = decide(shop, ask(shop), "offer", offer_percent="30", **form)
    assert "Offered instead: 30 % of the price" in page
    return shop.wait_for_mails(ADA, 2)[-1].text


@pytest.mark.both_databases
def test_an_accepted_offer_is_paid_once_and_the_manager_is_not_asked_again(
    offering_shop: Harness,
) -> None:
    shop = offering_shop
    told = offer(shop, note="It is only a scratch.", note_shared="yes")
    assert "makes you this offer instead" in told
    assert f"Then we refund {PART}, which is 30%." in told
    assert "> It is only a scratch." in told
    assert f"Our offer: {PART} back if you keep the items" in told  # on record
    (refund,) = shop.refunds()
    assert (refund.status, refund.decided_by) == ("rejected", MONA)
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
    thread = shop.mails_to(ADA)[-1].message_id
    for _ in range(2):
        shop.write(YES, in_reply_to=thread)
    paid = shop.wait_for_refund("paid")
    wait_for_quiet(shop)
    assert (paid.amount.minor, paid.decided_by) == (449_70, MONA)
    assert len(shop.mails_to(MONA)) == 1
    assert len(shop.refunds()) == 2
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert f"We have refunded {PART}" in "".join(mail.text for mail in shop.mails_to(ADA))


def test_a_customer_who_wants_the_refund_goes_back_to_the_manager(offering_shop: Harness) -> None:
    shop = offering_shop
    offer(shop)
    shop.write("No, I want my refund for the desk.", in_reply_to=shop.mails_to(ADA)[-1].message_id)
    shop.wait_for_mails(MONA, 2)
    assert [refund.status for refund in shop.refunds()] == ["rejected", "awaiting_approval"]
    assert shop.rows("SELECT status FROM offers")[0].status == "declined"


def test_an_offer_that_is_over_pays_nothing(offering_shop: Harness) -> None:
    shop = offering_shop
    offer(shop)
    pass_time(shop, days=6)
    shop.write(YES, in_reply_to=shop.mails_to(ADA)[-1].message_id)
    shop.wait_for_mails(ADA, 3)
    wait_until(shop.at_rest, 30, "rest")
    # The manager is asked again.
    assert [refund.status for refund in shop.refunds()] == ["rejected", "awaiting_approval"]
    assert not shop.rows("SELECT 1 FROM ledger_entries")


def test_a_manager_offers_by_mail(offering_shop: Harness) -> None:
    shop = offering_shop
    ask(shop)
    (request,) = shop.mails_to(MONA)
    shop.write("Offer 30 %", from_address=MONA, to=str(request.reply_to))
    answer = shop.wait_for_mails(MONA, 2)[-1]
    assert "rejected it on" in answer.text
    assert "offered 30 % of the price" in answer.text
    assert f"Then we refund {PART}" in shop.wait_for_mails(ADA, 2)[-1].text


@pytest.mark.parametrize(
    ("percent", "problem"),
    [
        ("", "from 1 to 99"),
        ("100", "from 1 to 99"),
        ("x", "from 1 to 99"),
        ("0991", "from 1 to 99"),
    ],
)
def test_what_is_no_part_of_the_price_is_not_recorded(
    offering_shop: Harness, percent: str, problem: str
) -> None:
    shop = offering_shop
    assert problem in decide(shop, ask(shop), "offer", offer_percent=percent)
    assert not shop.rows("SELECT 1 FROM decisions")


def test_an_order_has_one_open_offer_so_that_a_yes_can_mean_no_other(
    offering_shop: Harness,
) -> None:
    shop = offering_shop
    link = ask(shop)
    asked = shop.refunds()[0]
    other = Offer(
        offer_id="offer_1",
        order_id=asked.order_id,
        conversation_id=asked.conversation_id,
        mail_id=asked.mail_id,
        items=(("L1", 1),),
        reason=asked.reason,
        percent=10,
        amount=Money(100, "USD"),
        status=OfferStatus.OPEN,
        offered_by="policy",
        policy_version=asked.policy_version or "",
        offered_at=shop.live.now(),
        expires_at=shop.live.now() + timedelta(days=1),
    )
    with shop.live.database.transaction() as connection:
        offers.record(connection, other, "of another item")
    assert "still open" in decide(shop, link, "offer", offer_percent="30")
    assert not shop.rows("SELECT 1 FROM decisions")


def test_a_shop_without_offers_has_no_button_and_records_none(busy_shop: Harness) -> None:
    shop = busy_shop
    shop.stock(big_order())
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    assert "offer 30" not in request.text
    page = decide(shop, link_in(request.text), "offer", offer_percent="30")
    assert "cannot be offered" in page
    assert "Offer part of the price" not in page
    assert not shop.rows("SELECT 1 FROM decisions")
    assert "accept_offer" not in [tool.name for tool in registry.offered(shop.live.policy)]


def test_news_since_the_offer_ask_the_manager_again(offering_shop: Harness) -> None:
    shop = offering_shop
    offer(shop)
    with shop.live.database.transaction() as connection:
        (made,) = offers.list_of_order(connection, "W2001")
    assert made.offered_by == MONA
    shop.stock(big_order(status="cancelled"))
    shop.write(YES, in_reply_to=shop.mails_to(ADA)[-1].message_id)
    shop.wait_for_mails(MONA, 2)
    assert [refund.status for refund in shop.refunds()] == ["rejected", "awaiting_approval"]


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        ("500.00", "500.00", 1),  # more than the offer, less than the desk
        ("1499.00", "1499.00", 1),  # the manager knew of it
        ("1499.00", "1599.00", 2),
        ("0", "1499.00", 2),
    ],
)
def test_a_refund_elsewhere_since_the_offer_asks_the_manager_again(
    offering_shop: Harness, before: str, after: str, asked: int
) -> None:
    shop = offering_shop

    def have(refunded: str) -> None:
        desk = {"item_id": "D1", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"}
        chair = desk | {"item_id": "C1", "name": "Chair", "unit_price": "600.00"}
        paid = {"payment_id": "pay_W2001", "method": "card", "amount": "2099.00"}
        shop.stock(order("W2001", items=[desk, chair], payments=[paid | {"refunded": refunded}]))

    have(before)
    offer(shop)
    have(after)
    accept(shop)
    shop.wait_for_refund("paid" if asked == 1 else "awaiting_approval")
    assert shop.refunds()[-1].amount.minor == 449_70
    if asked > 1:
        shop.wait_for_mails(MONA, asked)
    assert len(shop.mails_to(MONA)) == asked


def let_the_window_pass(shop: Harness, **changes: Any) -> None:
    """Have the return window of the order be over, while the offer is open."""
    shop.live = replace(
        shop.live, policy=replace(shop.live.policy, return_window_days=1, **changes)
    )
    services.bind(shop.live)


def accept(shop: Harness) -> None:
    shop.write(YES, in_reply_to=shop.mails_to(ADA)[-1].message_id)


def test_an_offer_is_kept_after_the_return_window(offering_shop: Harness) -> None:
    shop = offering_shop
    offer(shop)
    let_the_window_pass(shop)
    accept(shop)
    paid = shop.wait_for_refund("paid")
    assert (paid.amount.minor, paid.decided_by) == (449_70, MONA)
    assert len(shop.mails_to(MONA)) == 1


def test_after_the_return_window_an_offer_needs_the_second_person_too(
    offering_shop: Harness,
) -> None:
    shop = offering_shop
    offer(shop)
    let_the_window_pass(shop, four_eyes_above={"USD": 400_00})
    accept(shop)
    shop.wait_for_mails(MONA, 2)
    asked = shop.refunds()[-1]
    assert (asked.status, asked.four_eyes) == ("awaiting_approval", True)


def test_after_the_return_window_an_offer_is_not_paid_beside_a_replacement(
    offering_shop: Harness,
) -> None:
    shop = offering_shop
    offer(shop)
    send_again(shop)
    let_the_window_pass(shop)
    accept(shop)
    shop.wait_for_mails(MONA, 2)
    asked = shop.refunds()[-1]
    assert asked.status == "awaiting_approval"
    assert "same_item_refunded_before" in asked.policy_reasons
    assert not shop.rows("SELECT 1 FROM ledger_entries")


def send_again(shop: Harness) -> None:
    """Have a person send the desk once more."""
    asked = shop.refunds()[0]
    replacement = Remedy(
        remedy_id="remedy_1",
        kind=RemedyKind.REPLACEMENT,
        status=RemedyStatus.DONE,
        order_id=asked.order_id,
        conversation_id=asked.conversation_id,
        mail_id=asked.mail_id,
        items=(RemedyItem("D1", "Desk", 1),),
        requested_at=shop.live.now(),
        due_at=shop.live.now(),
        decided_by=MONA,
        decided_at=shop.live.now(),
    )
    with shop.live.database.transaction() as connection:
        remedies.record(connection, replacement, "replacement")


def test_an_offer_stands_although_the_policy_has_none_any_more(offering_shop: Harness) -> None:
    shop = offering_shop
    offer(shop)
    shop.live = replace(shop.live, policy=replace(shop.live.policy, keep_offers=None))
    services.bind(shop.live)
    shop.write(YES, in_reply_to=shop.mails_to(ADA)[-1].message_id)
    assert shop.wait_for_refund("paid").amount.minor == 449_70
