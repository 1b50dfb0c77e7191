"""Today's code on the schema of a release to come, as during an upgrade: migrations add, and it goes on."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.migration import check_schema
from mailagent.store.schema import metadata
from tests.cast import ADA, MONA, big_order
from tests.harness import Harness, running
from tests.round_trips.approvals import decide, link_in


def add_everywhere(shop: Harness) -> None:
    """Do to every table what a migration may do, and say that it was done."""
    with shop.live.database.transaction() as connection:
        for table in metadata.tables:
            for column in ("of_tomorrow TEXT", "counted_tomorrow INTEGER NOT NULL DEFAULT 0"):
                connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column}"))
            connection.execute(
                sa.text(f"CREATE INDEX ix_{table}_tomorrow ON {table} (of_tomorrow)")
            )
        connection.execute(sa.text("CREATE TABLE visits_of_tomorrow (visit_id TEXT PRIMARY KEY)"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))


def test_code_of_today_works_on_the_schema_of_tomorrow(shop: Harness) -> None:
    shop.stock(big_order())
    with running(shop):
        shop.write("The standing desk of order W2001 is damaged, please refund it.")
        (request,) = shop.wait_for_mails(MONA)
        add_everywhere(shop)  # while it runs, and a refund waits
        check_schema(shop.live.database)
        decide(shop, link_in(request.text), "approve")
        shop.wait_for_refund("paid")
        shop.wait_for_mails(ADA, 2)
        shop.write("Which orders of mine do you have?", from_address="grace@example.org")
        shop.wait_for_mails("grace@example.org")
