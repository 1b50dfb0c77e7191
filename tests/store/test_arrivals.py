"""Mail that is let in within an hour: exactly counted near the limit, rarely counted far from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import Limits
from mailagent.store.mail.arrivals import KEPT, SHARE, Arrivals
from tests.harness import Harness


@contextmanager
def counting(shop: Harness) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if "inbound_mails" in statement:
            said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


def asked(shop: Harness, arrivals: Arrivals, most: int, after: timedelta = timedelta(0)) -> bool:
    with shop.live.database.snapshot() as connection:
        return arrivals.is_used_up(connection, shop.live.now() + after, most, proven=True)


def test_far_from_the_limit_a_share_is_let_in_before_the_next_count(
    shop: Harness, arrivals: Arrivals
) -> None:
    with counting(shop) as said:
        assert not any(asked(shop, arrivals, 10 * SHARE) for _ in range(11))
        assert len(said) == 1  # and ten more let in
        assert not asked(shop, arrivals, 10 * SHARE)
        assert len(said) == 2


@pytest.mark.parametrize("after", [KEPT, -timedelta(seconds=2)])
def test_what_was_counted_holds_for_a_minute_and_not_if_the_clock_goes_back(
    shop: Harness, arrivals: Arrivals, after: timedelta
) -> None:
    with counting(shop) as said:
        asked(shop, arrivals, 1000)
        asked(shop, arrivals, 1000, after=timedelta(seconds=1))
        assert len(said) == 1
        asked(shop, arrivals, 1000, after=after)
        assert len(said) == 2


def test_another_limit_is_counted_for(shop: Harness, arrivals: Arrivals) -> None:
    shop.write("Hello")
    assert not asked(shop, arrivals, 1000)
    assert asked(shop, arrivals, 1)


def test_of_a_flood_that_goes_on_only_the_excess_is_throttled(shop: Harness) -> None:
    clock = shop.live.now()
    shop.live = replace(shop.live, limits=Limits(mails_per_hour=3), now=lambda: clock)
    services.bind(shop.live)
    for number in range(24):  # one in ten minutes: six an hour, of which three may
        shop.write("Hello", from_address=f"c{number}@example.com")
        clock += timedelta(minutes=10)
    rows = shop.rows("SELECT status FROM inbound_mails ORDER BY received_at")
    let_in = [row.status == "unanswered" for row in rows]
    assert [sum(let_in[hour : hour + 6]) for hour in range(0, 24, 6)] == [3, 3, 3, 3]
