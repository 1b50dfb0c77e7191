"""Days and deadlines over the nights in which clocks are changed, and over a leap day. All is reckoned in UTC:
a day has 24 hours, whatever zone the shop, its machine and its database are in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mailagent import services
from mailagent.adapters.order_files.export import CsvRow, parse_moment
from mailagent.domain.deadline import end_of_day
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.domain.refunds.policy import Policy, return_by
from mailagent.domain.shop import Retention
from mailagent.store.refunds import approvals, orders
from tests.cast import MONA, order
from tests.harness import Harness
from tests.workflows.paying import look
from tests.workflows.proposals import batch_of, propose
from tests.workflows.trouble import is_sqlite

VIENNA, NEW_YORK = ZoneInfo("Europe/Vienna"), ZoneInfo("America/New_York")
DAY = timedelta(hours=24)


def at(zone: ZoneInfo, text: str, fold: int = 0) -> datetime:
    """Return a time of a clock on the wall; `fold`: 1 when it shows it for the second time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)


# Each with the end of the week of 24-hour days that begins then, as a manager reads it.
WEEKS = {
    "forward in Vienna": (at(VIENNA, "2030-03-31 01:59"), "7 April 2030, 00:59 UTC"),
    "back in Vienna": (at(VIENNA, "2030-10-27 02:30"), "3 November 2030, 00:30 UTC"),
    "an hour later": (at(VIENNA, "2030-10-27 02:30", 1), "3 November 2030, 01:30 UTC"),
    "forward in New York": (at(NEW_YORK, "2030-03-10 01:59"), "17 March 2030, 06:59 UTC"),
    "back in New York": (at(NEW_YORK, "2030-11-03 00:30"), "10 November 2030, 04:30 UTC"),
    "a leap day": (at(VIENNA, "2032-02-29 00:30"), "6 March 2032, 23:30 UTC"),
}
MOMENTS = pytest.mark.parametrize("moment", [moment for moment, _ in WEEKS.values()], ids=WEEKS)


@pytest.fixture
def abroad(shop: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """A shop whose machine and database are set to Vienna's time."""
    engine = shop.live.database.engine
    if not is_sqlite(shop):
        with shop.live.database.transaction() as connection:
            connection.exec_driver_sql(
                f"ALTER DATABASE {engine.url.database} SET timezone = 'Europe/Vienna'"
            )
        engine.dispose()  # those who are connected keep the old one
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Europe/Vienna")
        time.tzset()
        yield shop
    time.tzset()


@MOMENTS
def test_a_return_window_has_days_of_24_hours(abroad: Harness, moment: datetime) -> None:
    abroad.stock(replace(order(), delivered_at=moment))
    with abroad.live.database.snapshot() as connection:
        delivered_at = orders.load(connection, "W1001").delivered_at
    assert delivered_at is not None
    policy = Policy()
    last = moment.astimezone(UTC) + policy.return_window_days * DAY
    assert return_by(delivered_at, policy) == end_of_day(last)


@pytest.mark.parametrize(("moment", "shown"), WEEKS.values(), ids=WEEKS)
def test_a_request_expires_when_its_mail_says(
    abroad: Harness, moment: datetime, shown: str
) -> None:
    abroad.stock(order(status="shipped", delivered_at=None))
    written = abroad.write("I want a refund for W1001.")
    batch = batch_of(abroad, written.message_id)
    begins = moment.astimezone(UTC)
    services.bind(replace(abroad.live, now=lambda: begins))
    assert propose(batch, "W1001")["outcome"] == "needs_manager"
    (refund,) = abroad.refunds()
    assert look(refund.refund_id)["status"] == "awaiting_approval"
    with abroad.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, refund.refund_id)
    assert approval is not None
    assert approval.expires_at == begins + 7 * DAY
    (asked,) = abroad.rows("SELECT text FROM outbound_mails WHERE to_address = :to", to=MONA)
    assert f"If nobody decides by {shown}, the request is closed" in asked.text.replace("\xa0", " ")
    for early, status in ((1, "awaiting_approval"), (0, "expired")):
        late = begins + 7 * DAY - timedelta(seconds=early)
        services.bind(replace(abroad.live, now=lambda: late))  # noqa: B023 - called at once
        assert look(refund.refund_id)["status"] == status


@MOMENTS
def test_budgets_and_what_is_kept_go_by_days_of_utc(moment: datetime) -> None:
    now = moment.astimezone(UTC)
    today = day_begins_at(moment)
    assert today == datetime(now.year, now.month, now.day, tzinfo=UTC)
    assert day_begins_at(today + DAY - timedelta(seconds=1)) == today
    assert day_begins_at(today + DAY) == today + DAY
    assert now - Retention(run_days=30).runs_before(now) == 30 * DAY


@pytest.mark.parametrize(
    ("zone", "written", "meant"),
    [
        (VIENNA, "2030-03-31 01:59:59", "2030-03-31 00:59:59"),
        (VIENNA, "2030-03-31 02:30:00", "2030-03-31 01:30:00"),  # no clock ever showed it
        (VIENNA, "2030-03-31 03:00:00", "2030-03-31 01:00:00"),
        (VIENNA, "2030-10-27 02:30:00", "2030-10-27 00:30:00"),  # shown twice: the first time
        (VIENNA, "2030-10-27 02:30:00 +0100", "2030-10-27 01:30:00"),
        (VIENNA, "2030-10-27 03:00:00", "2030-10-27 02:00:00"),
        (NEW_YORK, "2030-03-10 01:59:59", "2030-03-10 06:59:59"),
        (NEW_YORK, "2030-03-10 03:00:00", "2030-03-10 07:00:00"),
        (NEW_YORK, "2030-11-03 01:30:00", "2030-11-03 05:30:00"),
        (NEW_YORK, "2030-11-03 02:00:00", "2030-11-03 07:00:00"),
        (VIENNA, "2032-02-29 00:30:00", "2032-02-28 23:30:00"),
        (NEW_YORK, "2032-02-28 23:30:00", "2032-02-29 04:30:00"),
    ],
)
def test_an_exported_time_of_the_shops_clock_is_read_as_utc(
    zone: ZoneInfo, written: str, meant: str
) -> None:
    read = parse_moment(CsvRow(2, {"Created at": written}), "Created at", zone)
    assert read is not None
    assert read.isoformat(sep=" ") == f"{meant}+00:00"
