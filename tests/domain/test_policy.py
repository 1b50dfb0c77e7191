"""The refund policy as a table: each rule with its boundary, on both sides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mailagent.domain.deadline import end_of_day
from mailagent.domain.mail.message import (
    INLINE_MIN_BYTES,
    PHOTO_MIN_BYTES,
    Attachment,
    is_photo,
    may_be_logo,
)
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy import (
    Approved,
    Decision,
    Declined,
    DeclineReason,
    ManagerReason,
    NeedsManager,
    Policy,
    return_by,
)
from mailagent.domain.refunds.policy_rules import RefundFacts, decide
from tests.cast import NOW
from tests.domain.policy_facts import SECOND, YESTERDAY, facts

NO = ManagerReason.REJECTED_BEFORE
POLICY = Policy()


def manager(*reasons: ManagerReason) -> NeedsManager:
    return NeedsManager(reasons)


WINDOW = timedelta(days=POLICY.return_window_days)
DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


CASES = (
    ("small and in time", facts(), Approved()),
    ("exactly the limit", facts(1_000_00), Approved()),
    ("a cent above the limit", facts(1_000_01), manager(ManagerReason.ABOVE_LIMIT)),
    ("together exactly the limit", facts(500_00, unasked=500_00), Approved()),
    ("together a cent above the limit",
        facts(500_00, unasked=500_01), manager(ManagerReason.ABOVE_LIMIT_TOGETHER)),
    ("a currency without a limit", facts(currency="CHF"), manager(ManagerReason.NO_LIMIT_FOR_CURRENCY)),
    ("all that is left", facts(100_00, remaining=100_00), Approved()),
    ("a cent more than is left", facts(100_01, remaining=100_00), Declined(DeclineReason.ABOVE_BALANCE)),
    ("nothing left", facts(0), Declined(DeclineReason.NOTHING_LEFT)),
    ("last day of the window", facts(delivered_at=YESTERDAY - WINDOW + MOMENT), Approved()),
    ("the day after the window",
        facts(delivered_at=YESTERDAY - WINDOW), Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("asked for on the last day, and worked on later",
        facts(delivered_at=YESTERDAY - WINDOW, asked_at=YESTERDAY), Approved()),
    ("asked for a moment too late",
        facts(delivered_at=YESTERDAY - WINDOW, asked_at=YESTERDAY + MOMENT),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("a refusal comes before a manager",
        facts(5_000_00, delivered_at=YESTERDAY - WINDOW),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
    ("cancelled and given back",
        facts(status=OrderStatus.CANCELLED, remaining=0), Declined(DeclineReason.ORDER_CANCELLED)),
    ("cancelled with a cent left",
        facts(1, status=OrderStatus.CANCELLED, remaining=1), manager(ManagerReason.CANCELLED)),
    ("nothing of a cancelled order is sent back too late",
        facts(status=OrderStatus.CANCELLED, delivered_at=YESTERDAY - WINDOW),
        manager(ManagerReason.CANCELLED)),
    ("a cent for one more unit of the same item",
        facts(1, items_before=True), manager(ManagerReason.ITEM_AGAIN)),
    ("what is left of more",
        facts(43_60, remaining=43_60, worth=Money(53_60, "USD")), manager(ManagerReason.REMAINDER)),
    ("what is left and no more", facts(43_60, remaining=43_60, worth=Money(43_60, "USD")), Approved()),
    ("as much refunded elsewhere as it is worth",
        facts(30_00, elsewhere=Money(30_00, "USD")), manager(ManagerReason.REMAINDER)),
    ("less refunded elsewhere than the price of what a part is offered of",
        facts(30_00, price=Money(90_00, "USD"), elsewhere=Money(89_99, "USD")), Approved()),
    ("as much refunded elsewhere as that price",
        facts(30_00, price=Money(90_00, "USD"), elsewhere=Money(90_00, "USD")),
        manager(ManagerReason.REMAINDER)),
    ("a cent less refunded elsewhere", facts(30_00, elsewhere=Money(29_99, "USD")), Approved()),
    ("pending", facts(status=OrderStatus.PENDING, delivered_at=None), manager(ManagerReason.NOT_DELIVERED)),
    ("every reason is given",
        facts(2_000_00, status=OrderStatus.SHIPPED, delivered_at=None),
        manager(ManagerReason.ABOVE_LIMIT, ManagerReason.NOT_DELIVERED)),
    ("a clock that is ahead", facts(delivered_at=NOW + DAY), Approved()),
    ("delivered in time to come", facts(delivered_at=NOW + DAY + SECOND), manager(ManagerReason.NOT_DELIVERED)),
    ("another order names the payment",
        facts(1, shared_payments=("pi_1",)), manager(ManagerReason.PAYMENT_SHARED)),
    ("a cent that somebody said no to", facts(1, refused_before=(NO,)), manager(NO)),
    ("refused before and above the limit",
        facts(1_000_01, refused_before=(NO,)), manager(ManagerReason.ABOVE_LIMIT, NO)),
    ("refused before and too late",
        facts(delivered_at=YESTERDAY - WINDOW, refused_before=(NO,)),
        Declined(DeclineReason.WINDOW_CLOSED, YESTERDAY)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_the_policy_decides(case: RefundFacts, expected: Decision) -> None:
    assert decide(case, POLICY, NOW) == expected


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [(None, Approved()), (Money(1, "USD"), manager(ManagerReason.REMAINDER))],
)
def test_a_free_item_may_be_in_any_refund_elsewhere(
    elsewhere: Money | None, expected: Decision
) -> None:
    case = facts(0, worth=Money(0, "USD"), elsewhere=elsewhere)
    assert decide(case, POLICY, NOW, {DeclineReason.NOTHING_LEFT}) == expected


@pytest.mark.parametrize(
    ("delivered_at", "last"),
    [
        (datetime(2026, 11, 1, tzinfo=UTC), end_of_day(datetime(2026, 12, 1, tzinfo=UTC))),
        (datetime(9999, 12, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
        (datetime(9999, 12, 30, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_return_window_ends_even_when_the_calendar_does(
    delivered_at: datetime, last: datetime
) -> None:
    assert return_by(delivered_at, POLICY) == last


# --- photo ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content_type", "size", "expected"),
    [
        ("a.jpg", "image/jpeg", PHOTO_MIN_BYTES, True),
        ("a.jpg", "image/jpeg", PHOTO_MIN_BYTES - 1, False),
        ("IMG_1.HEIC", "application/octet-stream", 3_000_000, True),
        ("photo", "IMAGE/PNG; name=photo", 20_000, True),
        ("a.svg", "image/svg+xml", 20_000, False),
        ("a.jpg", "application/pdf", 20_000, False),
        ("a.exe", "application/octet-stream", 20_000, False),
        ("invoice.pdf", "application/pdf", 20_000, False),
    ],
)
def test_a_picture_of_some_size_is_a_photo(
    name: str, content_type: str, size: int, expected: bool
) -> None:
    assert is_photo(Attachment(name, content_type, size)) is expected


@pytest.mark.parametrize(
    ("size", "is_inline", "expected"),
    [
        (PHOTO_MIN_BYTES, True, True),
        (INLINE_MIN_BYTES - 1, True, True),
        (INLINE_MIN_BYTES, True, False),
        (PHOTO_MIN_BYTES, False, False),
        (PHOTO_MIN_BYTES - 1, True, False),
    ],
)
def test_a_small_picture_in_the_text_may_be_a_logo(
    size: int, is_inline: bool, expected: bool
) -> None:
    assert may_be_logo(Attachment("image001.png", "image/png", size, is_inline)) is expected
