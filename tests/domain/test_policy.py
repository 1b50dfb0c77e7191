"""The refund policy as a table: each rule with its boundary, on both sides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mailagent.domain.mail.message import PHOTO_MIN_BYTES, Attachment, is_photo
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
from tests.domain.policy_facts import SECOND, facts

POLICY = Policy()


def manager(*reasons: ManagerReason) -> NeedsManager:
    return NeedsManager(reasons)


WINDOW = timedelta(days=POLICY.return_window_days)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(facts(), Approved(), id="small and in time"),
        pytest.param(facts(1_000_00), Approved(), id="exactly the limit"),
        pytest.param(
            facts(1_000_01), manager(ManagerReason.ABOVE_LIMIT), id="a cent above the limit"
        ),
        pytest.param(facts(500_00, unasked=500_00), Approved(), id="together exactly the limit"),
        pytest.param(
            facts(500_00, unasked=500_01),
            manager(ManagerReason.ABOVE_LIMIT_TOGETHER),
            id="together a cent above the limit",
        ),
        pytest.param(
            facts(currency="CHF"),
            manager(ManagerReason.NO_LIMIT_FOR_CURRENCY),
            id="a currency without a limit",
        ),
        pytest.param(facts(100_00, remaining=100_00), Approved(), id="all that is left"),
        pytest.param(
            facts(100_01, remaining=100_00),
            Declined(DeclineReason.ABOVE_BALANCE),
            id="a cent more than is left",
        ),
        pytest.param(facts(0), Declined(DeclineReason.NOTHING_LEFT), id="nothing left"),
        pytest.param(facts(delivered_at=NOW - WINDOW), Approved(), id="last moment of the window"),
        pytest.param(
            facts(delivered_at=NOW - WINDOW - SECOND),
            Declined(DeclineReason.WINDOW_CLOSED, NOW - SECOND),
            id="a second after the window",
        ),
        pytest.param(
            facts(5_000_00, delivered_at=NOW - WINDOW - SECOND),
            Declined(DeclineReason.WINDOW_CLOSED, NOW - SECOND),
            id="a refusal comes before a manager",
        ),
        pytest.param(
            facts(status=OrderStatus.CANCELLED, remaining=0),
            Declined(DeclineReason.ORDER_CANCELLED),
            id="cancelled and given back",
        ),
        pytest.param(
            facts(1, status=OrderStatus.CANCELLED, remaining=1),
            manager(ManagerReason.CANCELLED),
            id="cancelled with a cent left",
        ),
        pytest.param(
            facts(status=OrderStatus.CANCELLED, delivered_at=NOW - WINDOW - SECOND),
            manager(ManagerReason.CANCELLED),
            id="nothing of a cancelled order is sent back too late",
        ),
        pytest.param(
            facts(1, items_before=True),
            manager(ManagerReason.ITEM_AGAIN),
            id="a cent for one more unit of the same item",
        ),
        pytest.param(
            facts(43_60, remaining=43_60, worth=Money(53_60, "USD")),
            manager(ManagerReason.REMAINDER),
            id="what is left of more",
        ),
        pytest.param(
            facts(43_60, remaining=43_60, worth=Money(43_60, "USD")),
            Approved(),
            id="what is left and no more",
        ),
        pytest.param(
            facts(status=OrderStatus.PENDING, delivered_at=None),
            manager(ManagerReason.NOT_DELIVERED),
            id="pending",
        ),
        pytest.param(
            facts(2_000_00, status=OrderStatus.SHIPPED, delivered_at=None),
            manager(ManagerReason.ABOVE_LIMIT, ManagerReason.NOT_DELIVERED),
            id="every reason is given",
        ),
        pytest.param(facts(delivered_at=NOW + DAY), Approved(), id="a clock that is ahead"),
        pytest.param(
            facts(delivered_at=NOW + DAY + SECOND),
            manager(ManagerReason.NOT_DELIVERED),
            id="delivered in time to come",
        ),
        pytest.param(
            facts(1, shared_payments=("pi_1",)),
            manager(ManagerReason.PAYMENT_SHARED),
            id="another order names the payment",
        ),
        pytest.param(
            facts(1, refused_before=True),
            manager(ManagerReason.REFUSED_BEFORE),
            id="a cent that somebody said no to",
        ),
        pytest.param(
            facts(1_000_01, refused_before=True),
            manager(ManagerReason.ABOVE_LIMIT, ManagerReason.REFUSED_BEFORE),
            id="refused before and above the limit",
        ),
        pytest.param(
            facts(delivered_at=NOW - WINDOW - SECOND, refused_before=True),
            Declined(DeclineReason.WINDOW_CLOSED, NOW - SECOND),
            id="refused before and too late",
        ),
    ],
)
def test_the_policy_decides(case: RefundFacts, expected: Decision) -> None:
    assert decide(case, POLICY, NOW) == expected


@pytest.mark.parametrize(
    ("delivered_at", "last"),
    [
        (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)),
        (datetime(9999, 12, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)),
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
