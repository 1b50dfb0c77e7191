"""Orders of erased customers in a shop whose own system is asked: no look-up brings their parcels back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent.domain.orders.freshness import Freshness
from mailagent.store.mail import inbound
from mailagent.store.privacy import erasure
from mailagent.workflows.steps import order_source
from tests.cast import ADA, OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.round_trips.cells import cells
from tests.workflows.cancelling import PlayedSource, with_source
from tests.workflows.orders_of_tasks import look_ups, pass_minutes
from tests.workflows.proposals import write

pytestmark = ONE_DATABASE

NUMBER = "CanaryParcel"
LINK = f"https://carrier.example/{NUMBER}"
PARCEL = {"shipment_id": NUMBER, "status": "label_created"}
FOUND = order(shipments=[PARCEL | {"tracking_number": NUMBER, "tracking_url": LINK}])


def where_it_stands(shop: Harness) -> set[str]:
    return {f"{table}.{column}" for table, column, text in cells(shop) if NUMBER in text}


@pytest.fixture
def source(shop: Harness) -> PlayedSource:
    """The shop's system, after Ada was erased here."""
    source = with_source(shop)
    shop.stock(FOUND)
    batch = write(shop)
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"], "test")
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    return source


@pytest.mark.parametrize("email", ["", "deleted@site.invalid"])
def test_what_the_shop_erased_stays_away(shop: Harness, source: PlayedSource, email: str) -> None:
    source.orders = lambda _: replace(FOUND, customer_email=email, customer_name="")
    assert order_source.refresh("W1001") is Freshness.FRESH
    assert where_it_stands(shop) == set()
    assert order_source.refresh("W1001") is Freshness.FRESH
    assert [row.version for row in shop.rows("SELECT version FROM order_versions")] == [1]


def test_no_page_has_the_order_looked_up(shop: Harness, source: PlayedSource) -> None:
    pass_minutes(shop, 60)
    (thread,) = shop.rows("SELECT conversation_id FROM conversations")
    page = f"/ops/conversations/{thread.conversation_id}/refund/W1001"
    assert shop.log_in(TESS).get(page).status_code == 200
    assert look_ups(shop) == 0
