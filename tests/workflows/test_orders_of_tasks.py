"""Orders of open tasks are looked up without anybody asking, so that a task stops when its order changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN, BreakerState, Failure
from mailagent.domain.refunds.order import Order
from mailagent.store.operations import circuit_breakers
from mailagent.store.orders import versions
from mailagent.workflows.steps.maintenance.tasks import LOOK_UPS_AT_ONCE, STOPS_AT_ONCE, see_to
from mailagent.workflows.steps.order_source import look_up_order
from tests.cast import MAX, MONA, TESS, order
from tests.harness import Harness, post_form
from tests.workflows.cancelling import PlayedSource, with_source
from tests.workflows.orders_of_tasks import REFUNDED, ask, away, look_ups, pass_minutes

pytestmark = pytest.mark.both_databases


@pytest.fixture
def source(shop: Harness) -> PlayedSource:
    """The shop's system. Its clock stands at the beginning of an hour."""
    now = shop.live.now().replace(minute=0, second=0) + timedelta(hours=1)
    shop.live = replace(shop.live, now=lambda: now)
    services.bind(shop.live)
    return with_source(shop)


def test_a_task_stops_when_the_shops_system_says_that_its_order_has_changed(
    shop: Harness, source: PlayedSource
) -> None:
    ask(shop, "W1001")
    assert (see_to(), look_ups(shop)) == (0, 0)
    source.orders = lambda _: order(status="cancelled", payments=[REFUNDED])
    pass_minutes(shop, 60)
    assert (see_to(), see_to(), look_ups(shop)) == (0, 0, 1)  # once in a minute
    look_up_order("W1001")
    assert (see_to(), see_to()) == (1, 0)
    mails = shop.rows("SELECT to_address FROM outbound_mails WHERE subject LIKE '%it is stopped%'")
    assert sorted(each.to_address for each in mails) == sorted([MONA, MAX])
    (row,), tess = shop.rows("SELECT remedy_id FROM remedies"), shop.log_in(TESS)
    page = tess.get("/ops/tasks").text
    assert ("The order is cancelled: send nothing" in page, 'name="done"' in page) == (True, False)
    assert post_form(tess, f"/ops/tasks/{row.remedy_id}", "/ops", done="yes").status_code == 422
    pass_minutes(shop, 1)
    see_to()
    assert look_ups(shop) == 1  # it is fresh again


def test_an_order_without_news_is_looked_up_once_an_hour(
    shop: Harness, source: PlayedSource
) -> None:
    ask(shop, "W1001")
    found = Counter[int]()
    for minute in range(0, 180, 10):
        before = look_ups(shop)
        see_to()
        if look_ups(shop) > before:
            look_up_order("W1001")
            found[minute // 60] += 1
        pass_minutes(shop, 10)
    assert found == {1: 1, 2: 1}


def test_a_sweep_has_a_few_orders_looked_up_those_first_that_were_seen_longest_ago(
    shop: Harness, source: PlayedSource
) -> None:
    most = LOOK_UPS_AT_ONCE[BreakerState.CLOSED]
    order_ids = [f"W{number}" for number in range(1001, 1001 + most + 2)]
    ask(shop, *reversed(order_ids))
    at = services.current().now() - timedelta(days=2)
    with shop.live.database.transaction() as connection:
        for late, order_id in enumerate(order_ids):
            versions.note_changed(connection, order_id, at + timedelta(minutes=late))
    see_to()
    assert look_ups(shop) == most
    for order_id in order_ids[:most]:
        look_up_order(order_id)
    pass_minutes(shop, 1)
    see_to()
    assert look_ups(shop) == most + 2


@contextmanager
def transactions(shop: Harness) -> Iterator[list[object]]:
    begun: list[object] = []
    engine, note = shop.live.database.engine, partial(list.append, begun)
    sa.event.listen(engine, "begin", note)
    yield begun
    sa.event.remove(engine, "begin", note)


def gone(_order_id: str) -> Order | None:
    return None


@pytest.mark.parametrize("answer", [gone, away])
def test_an_order_that_cannot_be_looked_up_is_tried_once_an_hour(
    shop: Harness, source: PlayedSource, answer: Callable[[str], Order | None]
) -> None:
    wrong = [f"W{number}" for number in range(2001, 2001 + FAILURES_TO_OPEN - 1)]
    ask(shop, *wrong)
    source.orders = lambda order_id: answer(order_id) if order_id in wrong else order(order_id)
    pass_minutes(shop, 120)
    see_to()
    for order_id in wrong:
        look_up_order(order_id)
    ask(shop, "W3001")  # it does not wait for them
    pass_minutes(shop, 1)
    see_to()
    assert look_ups(shop) == len(wrong) + 1
    look_up_order("W3001")
    for _ in range(5):
        pass_minutes(shop, 10)
        see_to()
    assert look_ups(shop) == len(wrong) + 1
    pass_minutes(shop, 9.5)
    see_to()
    assert look_ups(shop) == 2 * len(wrong) + 1


def test_a_source_that_is_left_alone_gets_one_look_up_as_its_probe(
    shop: Harness, source: PlayedSource
) -> None:
    ask(shop, "W1001", "W1002")
    pass_minutes(shop, 120)
    provider = services.current().providers.orders
    assert provider
    failure = Failure("it refuses us", needs_operator=True)
    with shop.live.database.transaction() as connection:
        now = services.current().now()
        circuit_breakers.record_failure(connection, provider, failure, now, probing=False)
    see_to()
    assert look_ups(shop) == 0
    pass_minutes(shop, 10)
    see_to()
    assert look_ups(shop) == 1


def test_a_sweep_writes_nothing_for_orders_that_it_does_not_have_looked_up(
    shop: Harness, source: PlayedSource
) -> None:
    ask(shop, "W1001")
    opened = []
    for provider in (services.current().providers.orders, None):
        providers = replace(services.current().providers, orders=provider)
        services.bind(replace(services.current(), providers=providers))
        with transactions(shop) as begun:
            see_to()
        opened.append(len(begun))
    with_source, without = opened
    assert with_source == without + 1  # only reads which are to be looked up


def test_stopped_tasks_that_managers_know_of_do_not_keep_new_ones_waiting(shop: Harness) -> None:
    known = [f"W{number}" for number in range(2001, 2001 + 4 * STOPS_AT_ONCE)]
    new = [f"W{number}" for number in range(3001, 3001 + STOPS_AT_ONCE)]
    ask(shop, *known, *new)
    shop.stock(*(order(each, status="cancelled") for each in known))
    assert [see_to() for _ in range(5)] == [STOPS_AT_ONCE] * 4 + [0]
    shop.stock(*(order(each, status="cancelled") for each in new))
    assert [see_to(), see_to()] == [STOPS_AT_ONCE, 0]


def test_a_shop_that_imports_its_orders_has_none_looked_up(shop: Harness) -> None:
    ask(shop, "W1001")
    pass_minutes(shop, 120)
    see_to()
    assert look_ups(shop) == 0
