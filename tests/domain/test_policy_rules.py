"""The rules that a shop sets itself, as a table: each with its boundary, on both sides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import (
    EXPECTED_WITHIN,
    Packed,
    Shipment,
    ShipmentStatus,
    find_parcels,
)
from mailagent.domain.refunds.labels import DECLINE_REASONS, MANAGER_REASONS, describe_policy
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy import (
    SHOP_AT_FAULT,
    Approved,
    Cap,
    Caps,
    CustomerCap,
    Decision,
    Declined,
    DeclineReason,
    Draft,
    KeepOffers,
    LateParcels,
    ManagerReason,
    Named,
    NeedsManager,
    Policy,
    ReturnFirst,
    StoreCredit,
)
from mailagent.domain.refunds.policy_rules import Granted, LineFacts, RefundFacts, decide, weigh
from mailagent.domain.refunds.refund import RefundReason
from tests.cast import NOW
from tests.domain.policy_facts import SECOND, YESTERDAY, facts

DAMAGED, CHANGED_MIND = RefundReason.DAMAGED, RefundReason.CHANGED_MIND
SALE, SHOES = LineFacts("S1", final_sale=True), LineFacts("H1", category="Shoes")
BACK_FIRST = Policy(
    return_first=ReturnFirst(
        frozenset({DAMAGED, CHANGED_MIND}), "Send it.", restock_reasons=frozenset({CHANGED_MIND})
    )
)
KETTLE = LineFacts("K1", category="kitchen")


def usd(minor: int) -> Money:
    return Money(minor, "USD")


def manager(*reasons: ManagerReason) -> NeedsManager:
    return NeedsManager(reasons)


def capped(**caps: Any) -> Policy:
    return Policy(caps=Caps(**caps))


def delivered_days_ago(days: int) -> dict[str, Any]:
    return {"delivered_at": NOW - timedelta(days=days)}


NEEDS_PHOTO = Policy(photo_reasons=frozenset({DAMAGED}))
FINAL = Policy(final_sale=Named(frozenset({"G1"}), frozenset({"shoes"})))
WINDOWS = Policy(return_window_days_by_category={"shoes": 14, "kitchen": 60})
ASKS = Policy(
    always_ask=Named(
        item_ids=frozenset({"G1"}),
        categories=frozenset({"shoes"}),
        reasons=frozenset({RefundReason.OTHER}),
        methods=frozenset({"gift_card"}),
    )
)
DRAFTS = Policy(drafts_refunds=True, draft=Draft({"USD": 50_00}, frozenset({RefundReason.DAMAGED})))
TWO = Policy(limits={"USD": 10_000_00}, four_eyes_above={"USD": 2_000_00})


LATE = Policy(late_parcels=LateParcels(ask_after_days=5, refund_after_days=14))
NOT_DELIVERED, SHIPPED = RefundReason.NOT_DELIVERED, OrderStatus.SHIPPED
SENT = Shipment("S1", ShipmentStatus.IN_TRANSIT, shipped_at=NOW - timedelta(days=30))
HERE = Shipment("S2", ShipmentStatus.DELIVERED, delivered_at=NOW - timedelta(days=2))
DUE_60_DAYS_LATER: dict[str, Any] = {
    "shipped_at": None,
    "expected_at": NOW - timedelta(days=63) + EXPECTED_WITHIN,
}
NO_DAY = datetime.max.replace(tzinfo=UTC)
WAIT = Declined(DeclineReason.PARCEL_ON_ITS_WAY)
ASK = manager(ManagerReason.NOT_DELIVERED)


def quiet(days: int, sooner: timedelta = timedelta(0), **changes: Any) -> Shipment:
    """Return a parcel that has not moved for so many days, less `sooner`."""
    return replace(SENT, last_event_at=NOW - timedelta(days=days) + sooner, **changes)


def missed(
    *parcels: Shipment, status: OrderStatus = SHIPPED, whole: bool = True, **changes: Any
) -> RefundFacts:
    """Return the facts of an order that the customer says never arrived."""
    packed: dict[str, Any] = {"packed": Packed(parcels, whole), "reason": NOT_DELIVERED}
    return facts(status=status, delivered_at=None, **(packed | changes))


PARCEL_CASES = (
    ("it moved a moment less than the days ago", LATE, missed(quiet(5, SECOND)), WAIT),
    ("it has not moved for the days", LATE, missed(quiet(5)), ASK),
    ("a moment before it counts as lost", LATE, missed(quiet(14, SECOND)), ASK),
    ("it counts as lost", LATE, missed(quiet(14)), Approved()),
    ("no event ever came", LATE, missed(SENT), ASK),
    ("no event ever came of one of two", LATE, missed(SENT, quiet(20)), ASK),
    ("no event ever came, and it was sent yesterday",
        LATE, missed(replace(SENT, shipped_at=NOW - timedelta(days=1))), WAIT),
    ("it has moved, but is not expected yet",
        LATE, missed(replace(SENT, expected_at=NOW - timedelta(days=5) + SECOND)), WAIT),
    ("late since the day it was expected",
        LATE, missed(replace(SENT, expected_at=NOW - timedelta(days=5))), ASK),
    ("expected as late as can be", LATE, missed(quiet(63, **DUE_60_DAYS_LATER)), WAIT),
    ("expected later than can be", LATE, missed(quiet(63, -SECOND, **DUE_60_DAYS_LATER)), ASK),
    ("expected in another year, and it moved", LATE, missed(quiet(4, expected_at=NO_DAY)), WAIT),
    ("expected in another year, and late", LATE, missed(quiet(5, expected_at=NO_DAY)), ASK),
    ("expected in another year, and lost", LATE, missed(quiet(14, expected_at=NO_DAY)), ASK),
    ("expected in another year, beside one that is lost",
        LATE, missed(quiet(14), quiet(14, expected_at=NO_DAY)), ASK),
    ("expected in a moment, later than can be",
        LATE, missed(quiet(61, shipped_at=None, expected_at=NOW + SECOND)), ASK),
    ("expected later than can be, and a moment before it counts as lost",
        LATE, missed(quiet(90, shipped_at=None, expected_at=NOW - timedelta(days=14) + SECOND)), ASK),
    ("expected later than can be, and lost",
        LATE, missed(quiet(90, shipped_at=None, expected_at=NOW - timedelta(days=14))), Approved()),
    ("of two parcels one moved", LATE, missed(quiet(20), quiet(4)), WAIT),
    ("both parcels are lost", LATE, missed(quiet(20), quiet(14)), Approved()),
    ("a problem that the carrier reports",
        LATE, missed(quiet(14, status=ShipmentStatus.EXCEPTION)), Approved()),
    ("out for delivery", LATE, missed(quiet(4, status=ShipmentStatus.OUT_FOR_DELIVERY)), WAIT),
    ("only a label", LATE, missed(quiet(20, status=ShipmentStatus.LABEL_CREATED)), ASK),
    ("sent back", LATE, missed(quiet(20, status=ShipmentStatus.RETURNED)), ASK),
    ("no time is known", LATE, missed(Shipment("S1", ShipmentStatus.IN_TRANSIT)), ASK),
    ("an item is in no parcel", LATE, missed(quiet(20), whole=False), ASK),
    ("no parcel is known", LATE, missed(), ASK),
    ("the carrier says that it was delivered",
        LATE, missed(HERE, status=OrderStatus.DELIVERED), manager(ManagerReason.PARCEL_DELIVERED)),
    ("the order counts as delivered, no parcel is known",
        LATE, missed(status=OrderStatus.DELIVERED), manager(ManagerReason.PARCEL_DELIVERED)),
    ("the order counts as delivered, the day is to come",
        LATE, facts(delivered_at=NOW + timedelta(days=2), reason=NOT_DELIVERED), ASK),
    ("one was delivered, one is lost",
        LATE, missed(HERE, quiet(20)),
        manager(ManagerReason.NOT_DELIVERED, ManagerReason.PARCEL_DELIVERED)),
    ("the order says delivered, its parcel does not",
        LATE, missed(quiet(6), status=OrderStatus.DELIVERED), ASK),
    ("the order says delivered, its parcel is lost",
        LATE, missed(quiet(14), status=OrderStatus.DELIVERED), ASK),
    ("another reason is not about the parcel", LATE, missed(quiet(1), reason=DAMAGED), ASK),
    ("delivered and damaged", LATE, facts(packed=Packed((HERE,), whole=True)), Approved()),
    ("a cancelled order",
        LATE, missed(quiet(1), status=OrderStatus.CANCELLED), manager(ManagerReason.CANCELLED)),
    ("lost, but above the limit", LATE, missed(quiet(14), amount=1_000_01), manager(ManagerReason.ABOVE_LIMIT)),
    ("nothing is set", Policy(), missed(quiet(1)), ASK),
    ("nothing is set, and it is lost", Policy(), missed(quiet(90)), ASK),
    ("only when to refund is set",
        Policy(late_parcels=LateParcels(refund_after_days=14)), missed(quiet(1)), ASK),
    ("only when to ask is set", Policy(late_parcels=LateParcels(ask_after_days=5)), missed(quiet(90)), ASK),
)  # fmt: skip

CASES = (
    *PARCEL_CASES,
    ("charged back in part", Policy(), facts(charged_back=usd(1)), Declined(DeclineReason.CHARGED_BACK)),
    ("charged back and cancelled",
        Policy(), facts(charged_back=usd(50_00), status=OrderStatus.CANCELLED),
        Declined(DeclineReason.CHARGED_BACK)),
    ("no photo came", NEEDS_PHOTO, facts(), Declined(DeclineReason.PHOTO_NEEDED)),
    ("a photo came", NEEDS_PHOTO, facts(photos=1), Approved()),
    ("what came may be a logo", NEEDS_PHOTO, facts(photos=2, maybe_logos=2),
        manager(ManagerReason.PHOTO_UNSURE)),
    ("a photo and a logo came", NEEDS_PHOTO, facts(photos=2, maybe_logos=1), Approved()),
    ("a logo without need of a photo", Policy(), facts(photos=1, maybe_logos=1), Approved()),
    ("a reason without photo", NEEDS_PHOTO, facts(reason=CHANGED_MIND), Approved()),
    ("a manager gets the photo, too", NEEDS_PHOTO, facts(5_000_00), Declined(DeclineReason.PHOTO_NEEDED)),
    ("nobody is asked for a photo in vain",
        NEEDS_PHOTO, facts(**delivered_days_ago(31)),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("one line on final sale",
        Policy(), facts(lines=(KETTLE, SALE), reason=CHANGED_MIND), Declined(DeclineReason.FINAL_SALE)),
    ("an item that the policy names",
        FINAL, facts(lines=(LineFacts("G1"),), reason=RefundReason.OTHER), Declined(DeclineReason.FINAL_SALE)),
    ("a category that the policy names, in capitals",
        FINAL, facts(lines=(SHOES,), reason=CHANGED_MIND), Declined(DeclineReason.FINAL_SALE)),
    ("no final sale", FINAL, facts(lines=(KETTLE,), reason=CHANGED_MIND), Approved()),
    *((f"final sale but {reason.value}",
        Policy(), facts(lines=(SALE,), reason=reason),
        manager(ManagerReason.FINAL_SALE)) for reason in sorted(SHOP_AT_FAULT - {NOT_DELIVERED})),
    ("final sale but never arrived",
        Policy(), facts(lines=(SALE,), reason=NOT_DELIVERED),
        manager(ManagerReason.PARCEL_DELIVERED, ManagerReason.FINAL_SALE)),
    ("last day of a category's window",
        WINDOWS, facts(lines=(SHOES,), **delivered_days_ago(14)), Approved()),
    ("the strictest line counts",
        WINDOWS, facts(lines=(KETTLE, SHOES), **delivered_days_ago(15)),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("a longer window", WINDOWS, facts(lines=(KETTLE,), **delivered_days_ago(60)), Approved()),
    ("an item of no category has the usual window",
        WINDOWS, facts(lines=(KETTLE, LineFacts("X")), **delivered_days_ago(31)),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("a reason that always needs a person",
        ASKS, facts(reason=RefundReason.OTHER), manager(ManagerReason.REASON)),
    ("a category that always needs a person",
        ASKS, facts(lines=(KETTLE, SHOES)), manager(ManagerReason.CATEGORY)),
    ("an item that always needs a person", ASKS, facts(lines=(LineFacts("G1"),)), manager(ManagerReason.ITEM)),
    ("a method that always needs a person",
        ASKS, facts(methods=("card", "Shopify Payments + Gift  Card")), manager(ManagerReason.METHOD)),
    ("nothing that needs a person", ASKS, facts(lines=(KETTLE,)), Approved()),
    ("exactly the order's cap", capped(order=Cap({"USD": 100_00})), facts(50_00, unasked=50_00), Approved()),
    ("a cent above the order's cap",
        capped(order=Cap({"USD": 100_00})), facts(50_00, unasked=50_01), manager(ManagerReason.ORDER_CAP)),
    ("the order's second refund of two",
        capped(order=Cap(count=2)), facts(granted_unasked=Granted(1, 1)), Approved()),
    ("the order's third refund of two",
        capped(order=Cap(count=2)), facts(granted_unasked=Granted(2, 2)), manager(ManagerReason.ORDER_CAP)),
    ("exactly the customer's caps",
        capped(customer=CustomerCap({"USD": 100_00}, 3)), facts(50_00, of_customer=Granted(2, 50_00)),
        Approved()),
    ("a cent above the customer's cap",
        capped(customer=CustomerCap({"USD": 100_00}, 3)), facts(50_00, of_customer=Granted(2, 50_01)),
        manager(ManagerReason.CUSTOMER_CAP)),
    ("one refund more than a customer's",
        capped(customer=CustomerCap({"USD": 100_00}, 3)), facts(1, of_customer=Granted(3, 3)),
        manager(ManagerReason.CUSTOMER_CAP)),
    ("exactly the day's cap",
        capped(day=Cap({"USD": 100_00})), facts(50_00, of_day=Granted(9, 50_00)), Approved()),
    ("one refund more than a day's",
        capped(day=Cap(count=9)), facts(1, of_day=Granted(9, 9)), manager(ManagerReason.DAY_CAP)),
    ("a cap of none", capped(order=Cap(count=0)), facts(1), manager(ManagerReason.ORDER_CAP)),
    ("exactly what one may approve", TWO, facts(2_000_00), Approved()),
    ("a cent above what one may approve",
        TWO, facts(2_000_01), NeedsManager((ManagerReason.FOUR_EYES,), four_eyes=True)),
    ("approved by one in parts",
        TWO, facts(1_000_00, seen_by_one=usd(1_000_01)),
        NeedsManager((ManagerReason.FOUR_EYES,), four_eyes=True)),
    ("no tier for the currency",
        TWO, facts(2_000_01, currency="CHF"), manager(ManagerReason.NO_LIMIT_FOR_CURRENCY)),
    ("everything waits in draft mode",
        Policy(drafts_refunds=True), facts(1), manager(ManagerReason.DRAFT_MODE)),
    ("nothing waits without draft mode",
        Policy(draft=DRAFTS.draft), facts(50_01, reason=CHANGED_MIND), Approved()),
    ("exactly what is unasked in draft mode", DRAFTS, facts(50_00, reason=CHANGED_MIND), Approved()),
    ("a cent above what is unasked in draft mode",
        DRAFTS, facts(50_01, reason=CHANGED_MIND), manager(ManagerReason.DRAFT_MODE)),
    ("unasked in draft mode, in parts",
        DRAFTS, facts(25_00, reason=CHANGED_MIND, granted_unasked=Granted(1, 25_01)),
        manager(ManagerReason.DRAFT_MODE)),
    ("a reason that is unasked in draft mode", DRAFTS, facts(50_01, reason=DAMAGED), Approved()),
    ("another currency in draft mode",
        DRAFTS, facts(1, currency="EUR", reason=CHANGED_MIND), manager(ManagerReason.DRAFT_MODE)),
    ("draft mode adds nothing to other reasons",
        DRAFTS, facts(1_000_01, reason=CHANGED_MIND), manager(ManagerReason.ABOVE_LIMIT)),
    ("draft mode lets nothing through that is declined",
        DRAFTS, facts(1, charged_back=usd(1)), Declined(DeclineReason.CHARGED_BACK)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "case", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_the_shops_own_rules_decide(policy: Policy, case: RefundFacts, expected: Decision) -> None:
    assert decide(case, policy, NOW) == expected


def test_what_is_shown_is_what_decides() -> None:
    policy = Policy(caps=Caps(order=Cap(count=1)), photo_reasons=frozenset({DAMAGED}))
    case = facts(2_000_00, granted_unasked=Granted(1, 1), photos=1)
    shown = [each.outcome for each in weigh(case, policy, NOW) if each.applies]
    assert decide(case, policy, NOW) == NeedsManager(tuple(shown))  # type: ignore[arg-type] # no refusal
    assert ManagerReason.ORDER_CAP in shown


def test_every_rule_is_shown_although_an_earlier_one_refused() -> None:
    case = facts(0, charged_back=usd(1), refused_before=(ManagerReason.LEFT_OUT,))
    outcomes = [each.outcome for each in weigh(case, Policy(), NOW) if each.applies]
    assert DeclineReason.NOTHING_LEFT in outcomes
    assert ManagerReason.LEFT_OUT in outcomes
    assert decide(case, Policy(), NOW) == Declined(DeclineReason.CHARGED_BACK)


def test_every_reason_has_words_for_our_own_people() -> None:
    assert set(DECLINE_REASONS) == set(DeclineReason)
    assert set(MANAGER_REASONS) == set(ManagerReason)


@pytest.mark.parametrize(
    ("method", "days"),
    [
        ("Gift  Card", 1),
        ("stripe", 7),
        ("apple_pay", 7),
        ("debit card", 3),  # itself before the wider word
        ("Shopify Payments + Gift Card", 7),
        ("card + cheque", None),
        ("manual", None),
    ],
)
def test_a_payment_method_is_found_however_it_is_written(method: str, days: int | None) -> None:
    policy = Policy(expected_days={"card": 7, "debit_card": 3, "gift_card": 1})
    assert policy.days_until_arrival(method) == days


@pytest.mark.parametrize(
    ("named", "paid_by", "requests"),
    [
        ("gift_card", "card + gift_card", True),
        ("gift_card", "card", False),
        ("card", "credit_card", True),
        ("credit_card", "debit_card", False),
        ("credit_card", "stripe", False),
    ],
)
def test_a_rule_for_a_method_holds_for_each_that_paid_and_for_its_kinds(
    named: str, paid_by: str, requests: bool
) -> None:
    assert Named(methods=frozenset({named})).has_method(paid_by) is requests


@pytest.mark.parametrize(
    ("method", "days"),
    [("card", 10), ("paypal", 5), ("bank_transfer", 5), ("gift_card", 0), ("cheque", None)],
)
def test_the_built_in_policy_says_when_to_expect_money(method: str, days: int | None) -> None:
    assert Policy().days_until_arrival(method) == days


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy(), "up to 1000.00 EUR, 1000.00 GBP, 1000.00 USD"),
        (Policy(limits={}), "up to nothing"),
        (WINDOWS, "Items of the category 'shoes' come back within 14 days."),
        (FINAL, "beside what order lines say: the items G1."),
        (NEEDS_PHOTO, "A photo is needed where the reason is: damaged."),
        (ASKS, "always decides where it was paid by gift_card."),
        (
            capped(customer=CustomerCap({"USD": 1_00}, 2)),
            "in 30 days: at most 1.00 USD and 2 requests.",
        ),
        (TWO, "A second person approves above 2000.00 USD."),
        (DRAFTS, "Draft mode: a person decides on every refund"),
        (DRAFTS, "Draft mode leaves out up to 50.00 USD for an order."),
        (DRAFTS, "Draft mode leaves out refunds where the reason is: arrived damaged"),
        (Policy(refund_shipping=False), "Shipping is not refunded."),
        (LATE, "Nothing is refunded for a parcel on its way until it is 5 days late."),
        (
            Policy(keep_offers=KeepOffers({DAMAGED: 30}, {"shoes": 40})),
            "30 % of the price is offered first, for 7 days, if the customer keeps the items.\n"
            "Of the category 'shoes' that is 40 %.",
        ),
        (Policy(keep_offers=KeepOffers({})), "a manager may offer part of the price, for 7 days"),
        (
            Policy(store_credit=StoreCredit(10)),
            "choose store credit instead of money, worth 10 % more.",
        ),
        (BACK_FIRST, "Paid when the goods are back, within 14 days"),
        (BACK_FIRST, "They are put in stock again where it is: changed their mind."),
        (Policy(store_credit=StoreCredit()), "choose store credit instead of money."),
        (LATE, "A parcel that is 14 days late is refunded without asking."),
        (Policy(expected_days={"card": 7}), "by card is expected within 7 business days."),
        (Policy(expected_days={"card": 1}), "by card is expected within 1 business day."),
        (Policy(expected_days={"card": 0}), "by card is expected at once."),
    ],
)
def test_the_rules_are_told_in_words(policy: Policy, told: str) -> None:
    assert told in "\n".join(describe_policy(policy))


@pytest.mark.parametrize(
    ("units", "held", "whole"),
    [
        ({"K1": 1}, ["S1"], True),
        ({"K1": 2}, ["S1"], False),
        ({"M1": 2}, ["S1", "S2"], True),
        ({"K1": 1, "X1": 1}, ["S1"], False),
        ({"X1": 1}, [], False),
    ],
)
def test_the_parcels_of_items_are_found(
    units: dict[str, int], held: list[str], whole: bool
) -> None:
    first = replace(SENT, items=(("K1", 1), ("M1", 1)))
    parcels = [first, replace(SENT, shipment_id="S2", items=(("M1", 1),))]
    found = find_parcels(parcels, units)
    assert ([each.shipment_id for each in found.parcels], found.whole) == (held, whole)
    unsaid = replace(SENT, shipment_id="S3")  # may hold anything
    assert find_parcels([*parcels, unsaid], units) == Packed((*found.parcels, unsaid), whole=True)
