"""Reading: all of one moment, whatever is written meanwhile, and nothing but reading."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from mailagent.store import order_rows, orders, schema
from tests.cast import order
from tests.stage import Stage

TEAPOT = {"item_id": "T1", "name": "Teapot", "quantity": 1, "unit_price": "20.00"}


def test_an_order_that_is_replaced_while_it_is_read_is_not_read_half_old_and_half_new(
    shop: Stage,
) -> None:
    old, new = order(), order(items=[TEAPOT], discount="10.00")
    shop.stock(old)
    with shop.live.database.snapshot() as connection:
        rows = connection.execute(sa.select(schema.orders)).all()
        shop.stock(new)
        assert order_rows.with_parts(connection, rows) == (old,)
        assert orders.find(connection, "W1001") == old
    with shop.live.database.snapshot() as connection:
        assert orders.find(connection, "W1001") == new


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_for_reading_writes_nothing_and_the_next_user_of_it_may(shop: Stage) -> None:
    database = shop.live.database
    with (
        database.snapshot() as connection,
        pytest.raises(sa.exc.DBAPIError, match="read-only transaction"),
    ):
        orders.save(connection, order(), shop.live.now())
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
        orders.save(connection, order(), shop.live.now())
