"""A call of the order source, whatever comes of it: the run goes on, and the next probe is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mailagent import services
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN
from mailagent.domain.orders.source import CancelOutcome, CancelRequest, OrderPage, SourceProblem
from mailagent.domain.refunds.order import Order
from mailagent.store.operations import circuit_breakers
from mailagent.workflows.steps import order_source
from tests.cast import ADA, order
from tests.harness import Harness, open_shop

pytestmark = pytest.mark.both_databases


class Source:
    """Answers as it is told to."""

    name = "http"

    def __init__(self, answer: Callable[[], Order | None]) -> None:
        self.answer = answer

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        raise NotImplementedError

    def load_order(self, order_id: str) -> Order | None:
        return self.answer()

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        raise NotImplementedError


def breaks() -> Order | None:
    raise KeyError(f"no such field for {ADA}")


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    settings = {
        "ORDER_SOURCE": "http",
        "ORDER_SOURCE_URL": "http://127.0.0.1:9",
        "ORDER_SOURCE_TOKEN": "t",
    }
    with open_shop(tmp_path, database_url, settings) as opened:
        yield opened


@pytest.fixture
def source(shop: Harness) -> Source:
    source = Source(order)
    shop.live = replace(shop.live, order_source=source)
    services.bind(shop.live)
    return source


def pass_until(shop: Harness, moment: datetime) -> None:
    services.bind(replace(shop.live, now=lambda: moment))


def test_an_answer_that_breaks_the_adapter_is_a_problem_of_the_source(
    shop: Harness, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.answer = breaks
    with pytest.raises(SourceProblem, match="KeyError") as problem:
        order_source.ask(lambda each: each.load_order("W1001"))
    assert ADA not in f"{problem.value!r}{problem.value.__cause__!r}{caplog.text}"
    assert "test_order_source_calls.py" in caplog.text


def test_a_probe_that_breaks_the_adapter_is_over_and_another_may_follow(
    shop: Harness, source: Source
) -> None:
    source.answer = breaks
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(SourceProblem, match="KeyError"):
            order_source.ask(lambda each: each.load_order("W1001"))
    provider = shop.live.providers.orders
    assert provider
    for answer in (breaks, order):
        with shop.live.database.snapshot() as connection:
            breaker = circuit_breakers.find(connection, provider)
        assert breaker
        assert breaker.until_at
        source.answer = answer
        pass_until(shop, breaker.until_at + timedelta(seconds=1))
        try:
            found = order_source.ask(lambda each: each.load_order("W1001"))
        except SourceProblem:
            found = None
    assert found == order()
    with shop.live.database.snapshot() as connection:
        assert circuit_breakers.find(connection, provider) is None
