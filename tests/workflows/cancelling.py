"""A shop's own order system, as a cancellation or a change of address meets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mailagent import services
from mailagent.adapters.order_files.record import render_order
from mailagent.domain.operations.provider import Provider, ProviderKind
from mailagent.domain.orders.source import (
    AddressOutcome,
    CancelOutcome,
    CancelRequest,
    OrderPage,
    SourceProblem,
)
from mailagent.domain.refunds.order import Order
from mailagent.domain.remedies.address import NewAddress
from mailagent.store.orders import versions
from mailagent.store.refunds import orders
from tests.harness import Harness


@dataclass
class PlayedSource:
    """Answers with `says`, next first: an outcome; a callable is called, a problem raised. `asked`: the
    cancellations, `addresses`: the addresses that it was asked for. `orders`: what it knows of each order."""

    says: list[Any]
    orders: Callable[[str], Order | None]
    name: str = "shop"
    asked: list[CancelRequest] = field(default_factory=list)
    addresses: list[NewAddress] = field(default_factory=list)

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        return OrderPage(())

    def load_order(self, order_id: str) -> Order | None:
        return self.orders(order_id)

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        self.asked.append(request)
        outcome: CancelOutcome = self._answer()
        return outcome

    def change_address(self, order_id: str, wanted: NewAddress) -> AddressOutcome:
        self.addresses.append(wanted)
        outcome: AddressOutcome = self._answer()
        return outcome

    def _answer(self) -> Any:
        answer = self.says.pop(0)
        if isinstance(answer, SourceProblem):
            raise answer
        return answer() if callable(answer) else answer


def keep_version(shop: Harness, found: Order) -> None:
    """Have a version of an order, as a look-up saves it."""
    told, live = versions.Told(found, render_order(found)), shop.live
    with live.database.transaction() as connection:
        before = versions.find_marks(connection, order_id=found.order_id)
        versions.keep(connection, [told], "the shop", live.now(), live.gateway.is_remote, before)


def with_source(shop: Harness, *says: Any) -> PlayedSource:
    """Have a source that answers so; its orders are those of the rows."""
    source = PlayedSource(list(says), partial(stored, shop))
    live = services.current()
    named = Provider(ProviderKind.ORDERS, source.name, "The shop", "ORDER_SOURCE_TOKEN")
    providers = replace(live.providers, orders=named)
    services.bind(replace(live, order_source=source, providers=providers))
    return source


def stored(shop: Harness, order_id: str) -> Order | None:
    with shop.live.database.snapshot() as connection:
        return orders.find(connection, order_id)
