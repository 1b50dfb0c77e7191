"""What an order source says: kept as a version whenever it changed, and never above what refunds allow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.order_files.record import parse_order, render_order
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.text import ERASED_NAME
from mailagent.store import schema
from mailagent.store.database import Database
from mailagent.store.mail import inbound
from mailagent.store.orders import lookups, versions
from mailagent.store.orders.versions import Kept, Mark, Told
from mailagent.store.privacy import erasure, retention
from mailagent.store.refunds import external_refunds, order_import, orders, refund_payments, refunds
from mailagent.workflows.steps.maintenance import housekeeping
from tests.cast import ADA, GRACE, NOW, OLGA, order, order_record
from tests.harness import Harness, wait_until
from tests.workflows.proposals import propose, write
from tests.workflows.trouble import is_sqlite

HOUR = timedelta(hours=1)
USD_30 = Money(30_00, "USD")


def is_remote(request: RefundRequest) -> bool:
    """Whether the gateway carries a refund out; the shop pays the others itself."""
    return request.payment_id == "pay_W1001" and request.credit is None


def told_of(record: dict[str, Any]) -> Told:
    found = parse_order(record)
    return Told(found, render_order(found))


def keep(database: Database, *records: dict[str, Any], hours: int = 0) -> Kept:
    told = [told_of(record) for record in records]
    before: dict[str, Mark] = {}
    with database.transaction() as connection:
        for each in told:
            before |= versions.find_marks(connection, order_id=each.order.order_id)
        return versions.keep(connection, told, "http", NOW + hours * HOUR, is_remote, before)


def kept_records(database: Database, order_id: str = "W1001") -> list[tuple[int, str]]:
    with database.snapshot() as connection:
        rows = versions.list_versions(connection, order_id)
    return [(row.version, row.record["status"]) for row in rows]


def test_a_version_is_written_only_when_something_changed(database: Database) -> None:
    shipped = order_record(status="shipped", delivered_at=None)
    assert keep(database, shipped).versions == {"W1001": 1}
    assert keep(database, shipped, hours=1).versions == {"W1001": 1}
    assert keep(database, order_record(), hours=2).versions == {"W1001": 2}
    assert kept_records(database) == [(1, "shipped"), (2, "delivered")]
    with database.snapshot() as connection:
        found = orders.load(connection, "W1001")
    assert found == order()
    assert found.seen_at == NOW + 2 * HOUR


def test_an_unchanged_order_was_still_seen(database: Database) -> None:
    keep(database, order_record())
    keep(database, order_record(), hours=3)
    with database.snapshot() as connection:
        assert orders.load(connection, "W1001").seen_at == NOW + 3 * HOUR


def test_what_an_import_changed_is_put_right_by_the_source(database: Database) -> None:
    keep(database, order_record())
    with database.transaction() as connection:
        order_import.save(connection, order(status="cancelled"), NOW + HOUR)
    assert keep(database, order_record(), hours=2).versions == {"W1001": 2}
    with database.snapshot() as connection:
        assert orders.load(connection, "W1001") == order()


def test_our_refunds_in_the_sources_sums_count_once(shop: Harness) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.insert(schema.refund_payments).values(
                idempotency_key="k",
                refund_id=connection.scalar(sa.select(schema.refunds.c.refund_id)),
                payment_id="pay_W1001",
                amount_minor=49_99,
                state="done",
                reference="r",
                intended_at=NOW,
                done_at=NOW,
            )
        )
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": "49.99"}
    assert keep(shop.live.database, order_record(payments=[paid])).problems == {}
    with shop.live.database.snapshot() as connection:
        assert orders.taken_minor(connection, "W1001") == 49_99


# How much of W1001 was asked for, and as what it is on record.
OURS = 20_00


def stock_with_intent(shop: Harness, state: str, payment_id: str, minutes_ago: float) -> None:
    """Have a refund of ours of a payment whose record said before that the shop has refunded 10.00 itself."""
    paid = {"payment_id": payment_id, "method": "card", "amount": "49.99", "refunded": "10.00"}
    keep(shop.live.database, order_record(payments=[paid]))
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "needs_manager"
    done_at = NOW + HOUR - timedelta(minutes=minutes_ago)
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.insert(schema.refund_payments).values(
                idempotency_key="k",
                refund_id=connection.scalar(sa.select(schema.refunds.c.refund_id)),
                payment_id=payment_id,
                amount_minor=OURS,
                state=state,
                reference="r" if state == "done" else None,
                intended_at=done_at,
                done_at=done_at if state == "done" else None,
            )
        )


def elsewhere(shop: Harness, order_id: str = "W1001") -> int:
    with shop.live.database.snapshot() as connection:
        return external_refunds.given_back_minor(connection, order_id)


def hear(shop: Harness, payment_id: str, refunded: str) -> int:
    """Let the source say how much was refunded in all; return what counts as refunded elsewhere then."""
    paid = {"payment_id": payment_id, "method": "card", "amount": "49.99", "refunded": refunded}
    assert keep(shop.live.database, order_record(payments=[paid]), hours=1).problems == {}
    return elsewhere(shop)


@pytest.mark.parametrize(
    ("state", "minutes_ago", "said", "others"),
    [
        ("done", 30, "30.00", 10_00),  # ours and the shop's
        ("done", 30, "45.00", 25_00),  # the shop has refunded more
        ("done", 30, "20.00", 0),  # the shop's came back to it
        ("done", 1, "10.00", 10_00),  # the record lags behind
        ("done", 1, "30.00", 10_00),
        ("asked", 30, "10.00", 10_00),  # not in the record yet
        ("asked", 30, "30.00", 10_00),  # pending at the gateway, or its answer was lost
        ("asked", 30, "25.00", 10_00),
        ("asked", 30, "45.00", 25_00),  # the shop's is more for certain
        ("asked", 30, "5.00", 5_00),  # the shop's is less for certain
        ("refused", 30, "10.00", 10_00),
        ("refused", 30, "30.00", 30_00),  # it was not ours
        ("refused", 30, "0.00", 0),
    ],
)
def test_what_a_live_record_says_is_explained_by_our_refunds_first(
    shop: Harness, state: str, minutes_ago: float, said: str, others: int
) -> None:
    stock_with_intent(shop, state, "pay_W1001", minutes_ago)
    assert hear(shop, "pay_W1001", said) == others


@pytest.mark.parametrize(
    ("state", "said", "others"),
    [
        ("done", "10.00", 10_00),  # the shop has not paid ours yet
        ("done", "30.00", 10_00),
        ("done", "45.00", 25_00),
        ("done", "5.00", 5_00),
        ("asked", "30.00", 30_00),  # the ledger has not even recorded it
    ],
)
def test_what_the_shop_pays_itself_may_stand_in_its_record_or_not(
    shop: Harness, state: str, said: str, others: int
) -> None:
    stock_with_intent(shop, state, "by_hand", 30)
    assert hear(shop, "by_hand", said) == others


def test_what_was_refunded_on_one_order_is_not_ours_on_another_with_the_same_payment(
    shop: Harness,
) -> None:
    """If one charge paid for two orders, a record may tell only its own order's part."""
    stock_with_intent(shop, "done", "pay_W1001", 30)
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
    for refunded in ("0", "20.00"):  # as much as ours of W1001
        record = order_record("W1002", payments=[paid | {"refunded": refunded}])
        assert keep(shop.live.database, record, hours=1).problems == {}
    assert elsewhere(shop, "W1002") == 20_00


def test_a_refund_of_others_is_known_as_soon_as_ours_is_settled(shop: Harness) -> None:
    stock_with_intent(shop, "asked", "pay_W1001", 30)
    assert hear(shop, "pay_W1001", "30.00") == 10_00
    with shop.live.database.transaction() as connection:
        connection.execute(schema.refund_payments.update().values(state="refused"))
    assert hear(shop, "pay_W1001", "30.00") == 30_00  # the record is the same


def test_a_change_that_refunds_forbid_is_a_problem_and_hides_no_other(shop: Harness) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    cheap = [{"payment_id": "pay_W1001", "method": "card", "amount": "9.99"}]
    dear = order_record(payments=cheap, status="shipped")
    kept = keep(shop.live.database, dear, order_record("W1002"))
    assert kept.versions == {"W1002": 1}
    assert "is less than" in kept.problems["W1001"]
    assert kept_records(shop.live.database) == [(1, "shipped")]
    for another in ({"currency": "EUR"}, {"customer": {"email": GRACE}, "items": [TWO]}):
        assert "W1001" in keep(shop.live.database, order_record(**another)).problems
    assert kept_records(shop.live.database) == [(1, "shipped")]
    with shop.live.database.snapshot() as connection:
        assert orders.load(connection, "W1001") == order()


CHEAP = [{"payment_id": "pay_W1001", "method": "card", "amount": "9.99"}]
WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.mark.parametrize(
    ("record", "overtaken"),
    [
        (order_record(payments=CHEAP, status="shipped"), False),  # the same
        (order_record(payments=CHEAP), True),  # refused, too
        (order_record(), True),  # the stored one
        (order_record(status="shipped"), True),  # a change that may be saved
    ],
)
def test_a_look_up_that_waited_for_a_refused_one_sees_what_it_recorded(
    shop: Harness, record: dict[str, Any], overtaken: bool
) -> None:
    """Which of the two answers is newer is unknown, so the second asks again."""
    if is_sqlite(shop):
        pytest.skip("SQLite has one lock for all")
    database = shop.live.database
    keep(database, order_record())
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    refused, second = map(told_of, (order_record(payments=CHEAP, status="shipped"), record))
    with database.snapshot() as connection:
        before = versions.find_marks(connection, order_id="W1001")

    def keep_second() -> Kept:
        with database.transaction() as connection:
            return versions.keep(connection, [second], "http", NOW, is_remote, before)

    with ThreadPoolExecutor(1) as thread:
        with database.transaction() as connection:
            kept = versions.keep(connection, [refused], "http", NOW, is_remote, before)
            waiting = thread.submit(keep_second)
            wait_until(lambda: bool(shop.rows(WAITS)), 20, "the second look-up to wait")
        assert kept.problems.keys() == {"W1001"}
        assert waiting.result(20).overtaken == (["W1001"] if overtaken else [])
    assert kept_records(database) == [(1, "delivered"), (2, "shipped")]
    keep(database, record, hours=1)
    with database.snapshot() as connection:
        assert versions.find_record(connection, "W1001") == second.record


TWO = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}


def two_kettles(left: int, refunded: str, **changes: Any) -> dict[str, Any]:
    """Two kettles, of which so many are left after the shop took units back."""
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "60.00", "refunded": refunded}
    lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "0.00"}
    items = [TWO | {"quantity": left}, lamp] if left else [lamp]
    return order_record(items=items, payments=[paid], **changes)


def record_end(shop: Harness, status: str, *parts_minor: int) -> None:
    """Record that the last refund has ended, and that so much of it was paid in parts."""
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, shop.refunds()[-1].refund_id)
        for number, minor in enumerate(parts_minor):
            key, payment_id = f"{refund.refund_id}.{number}", "pay_W1001"
            amount = Money(minor, "USD")
            refund_payments.intend_payment(
                connection, key, refund.refund_id, payment_id, amount, NOW
            )
            refund_payments.record_payment(
                connection, key, "done", reference=f"r{number}", done_at=NOW
            )
        paid = {"gateway": "g", "gateway_reference": "r", "paid_at": NOW}
        values = paid if status == "paid" else {"failure": "the rest cannot be paid"}
        refunds.move(connection, refund, RefundStatus(status), **values)


@pytest.mark.parametrize(
    ("refunded", "left", "said", "taken"),
    [
        ("paid", 1, "30.00", True),  # the unit that our refund is for
        ("approved", 1, "0.00", True),
        ("paid", 1, "45.00", True),  # beside a refund of the shop's
        ("approved", 1, "30.00", False),  # the shop may have paid for this unit itself
        ("paid", 0, "30.00", False),  # one more than we know of
        ("paid", 3, "30.00", False),
    ],
)
def test_units_that_the_shop_took_back_for_our_refund_are_no_problem(
    shop: Harness, refunded: str, left: int, said: str, taken: bool
) -> None:
    keep(shop.live.database, two_kettles(2, "0.00"))
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    if refunded == "paid":
        record_end(shop, "paid", 30_00)
    told = two_kettles(left, said, status="cancelled")
    for hours in (1, 2):
        kept = keep(shop.live.database, told, hours=hours)
        assert (kept.problems == {}, kept.versions != {}) == (taken, taken), kept.problems
    assert kept_records(shop.live.database) == [(1, "delivered"), (2, "cancelled")]
    with shop.live.database.snapshot() as connection:
        found = orders.load(connection, "W1001")
    assert found.status == ("cancelled" if taken else "delivered")
    assert [line.quantity for line in found.lines] == [2, 1]  # one is refunded, one is left


@pytest.mark.parametrize(("said", "others"), [("20.00", 0), ("30.00", 10_00)])
def test_units_of_a_refund_that_failed_after_a_part_was_paid_are_no_problem(
    shop: Harness, said: str, others: int
) -> None:
    """The shop may have refunded the rest itself."""
    keep(shop.live.database, two_kettles(2, "0.00"))
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    record_end(shop, "failed", 20_00)
    assert keep(shop.live.database, two_kettles(1, said), hours=1).problems == {}
    assert elsewhere(shop) == others


LAMP = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "10.00"}


@pytest.mark.parametrize(
    ("items", "changes", "taken"),
    [
        ([TWO, LAMP], {}, True),  # nothing is left, so the shop lists the order as it was bought
        ([TWO], {"shipping": "5.00"}, True),
        ([TWO, LAMP], {"refunded": "70.00"}, False),  # the shop may have refunded ours itself
        ([TWO | {"quantity": 1}, LAMP], {}, False),
        ([TWO, LAMP], {"amount": "80.00"}, False),  # the customer has bought it since
        ([TWO, LAMP | {"discount": "10.00"}], {}, False),  # goods that were sent again for nothing
        ([TWO, LAMP | {"unit_price": "10.01"}], {}, False),  # less was refunded before
    ],
)
def test_an_order_that_is_listed_as_it_was_bought_keeps_the_units_that_we_refund(
    shop: Harness, items: list[dict[str, Any]], changes: dict[str, str], taken: bool
) -> None:
    """The lamp was removed and refunded before we knew the order."""

    def record(items: list[dict[str, Any]], shipping: str = "0.00", **changes: str) -> Any:
        paid = {"payment_id": "pay_W1001", "method": "card", "amount": "75.00", "refunded": "10.00"}
        return order_record(items=items, shipping=shipping, payments=[paid | changes])

    keep(shop.live.database, record([TWO]))
    assert propose(write(shop), "W1001", ("K1", 2))["outcome"] == "approved"
    kept = keep(shop.live.database, record(items, **changes), hours=1)
    assert (kept.problems == {}) is taken, kept.problems
    with shop.live.database.snapshot() as connection:
        found = orders.load(connection, "W1001")
    assert (found.units, found.shipping_minor) == ({"K1": 2}, 0)


def purge(database: Database, hours: int, since: datetime | None = None, limit: int = 10) -> Any:
    with database.transaction() as connection:
        before = NOW + hours * HOUR
        return retention.purge_order_versions(connection, before, since, limit)


def test_a_version_is_purged_long_after_a_newer_one_came_and_the_newest_stays(
    database: Database,
) -> None:
    for hours, status in ((0, "pending"), (1, "shipped")):
        keep(database, order_record(status=status, delivered_at=None), hours=hours)
    keep(database, order_record(), hours=4)
    assert purge(database, 1) == (0, None)
    assert purge(database, 4) == (1, NOW + HOUR)
    assert kept_records(database) == [(2, "shipped"), (3, "delivered")]
    assert purge(database, 9, NOW + 5 * HOUR) == (0, NOW + 5 * HOUR)
    assert purge(database, 9) == (1, NOW + 4 * HOUR)
    assert purge(database, 9) == (0, None)
    assert kept_records(database) == [(3, "delivered")]


def test_a_batch_of_a_purge_begins_where_the_last_one_ended(database: Database) -> None:
    for order_id in ("W1", "W2", "W3"):
        keep(database, order_record(order_id=order_id, status="shipped", delivered_at=None))
        keep(database, order_record(order_id=order_id), hours=1)
    since = None
    for _ in range(3):
        many, since = purge(database, 2, since, limit=1)
        assert (many, since) == (1, NOW + HOUR)
    assert purge(database, 2, since, limit=1) == (0, since)


@pytest.mark.parametrize(
    ("status", "gone"),
    [("awaiting_approval", 0), ("approved", 0), ("rejected", 1), ("withdrawn", 1)],
)
def test_the_versions_of_an_order_with_an_open_refund_stay(
    shop: Harness, status: str, gone: int
) -> None:
    keep(shop.live.database, order_record(status="shipped", delivered_at=None))
    keep(shop.live.database, order_record(), hours=1)
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    with shop.live.database.transaction() as connection:
        connection.execute(schema.refunds.update().values(status=status))
    assert purge(shop.live.database, 2)[0] == gone


def test_versions_that_a_refund_kept_for_long_go_once_a_day(shop: Harness) -> None:
    keep(shop.live.database, order_record(status="shipped", delivered_at=None))
    keep(shop.live.database, order_record(), hours=1)
    rules = replace(shop.live.retention, mail_days=30)
    noon = (NOW + timedelta(days=200)).replace(hour=12)
    for now, left in ((noon, 2), (noon.replace(hour=housekeeping.LOOKS_AT_ALL_IN_HOUR), 1)):
        services.bind(replace(shop.live, retention=rules, now=partial(lambda now: now, now)))
        housekeeping.take_out_text(housekeeping.Deadline(None), housekeeping.LOOKS_BACK)
        assert len(kept_records(shop.live.database)) == left


def test_that_there_is_no_order_is_known_only_since_the_source_said_so(shop: Harness) -> None:
    write(shop)
    with shop.live.database.transaction() as connection:
        thread = connection.scalar(sa.select(schema.conversations.c.conversation_id)) or ""

        def absent(order_id: str, since_hours: int = 0) -> bool:
            return lookups.is_absent(connection, thread, order_id, NOW + since_hours * HOUR)

        assert not absent("W9")
        lookups.record_absent(connection, thread, "W9", NOW)
        assert absent("W9")
        assert not absent("W8")
        assert not absent("W9", 1)
        lookups.record_all(connection, thread, NOW, complete=False)
        assert lookups.are_listed(connection, thread, NOW)
        assert not absent("W8")
        lookups.record_all(connection, thread, NOW + HOUR, complete=True)
        assert absent("W8", 1)
        assert not lookups.are_listed(connection, thread, NOW + 2 * HOUR)


def test_an_erased_customer_leaves_no_version_and_no_look_up(shop: Harness) -> None:
    batch = write(shop)
    thread = batch["conversation_id"]
    keep(shop.live.database, order_record(), order_record("W2", customer={"email": GRACE}))
    with shop.live.database.transaction() as connection:
        lookups.record_all(connection, thread, NOW, complete=True)
        inbound.leave_unanswered(connection, batch["mail_ids"], "test")
        erasure.erase(connection, ADA, OLGA, 0, NOW)
    assert kept_records(shop.live.database) == []
    assert kept_records(shop.live.database, "W2") == [(1, "delivered")]
    assert shop.rows("SELECT 1 FROM order_lookups") == []


PARCEL = {"shipment_id": "S1", "status": "label_created", "tracking_number": "T1"}
DELETED = {"email": "deleted@site.invalid", "name": "[deleted]"}


def left_of(shop: Harness, order_id: str) -> tuple[str, str | None, list[str]]:
    """Return an order's customer's name, its tracking number, and the addresses in its versions."""
    with shop.live.database.snapshot() as connection:
        found = orders.load(connection, order_id)
        known = versions.list_versions(connection, order_id)
    emails = [each.record["customer"]["email"] for each in known]
    return found.customer_name, found.shipments[0].tracking_number, emails


def test_a_customer_who_was_erased_in_the_shop_first_leaves_nothing_in_their_orders(
    shop: Harness,
) -> None:
    database = shop.live.database
    for customer, hours in (({"email": ADA, "name": "Ada"}, 0), (DELETED, 1)):
        moved = order_record(customer=customer, shipments=[PARCEL])
        keep(database, moved, order_record("W2", customer=DELETED, shipments=[PARCEL]), hours=hours)
    with database.transaction() as connection:
        erasure.erase(connection, ADA, OLGA, 0, NOW)
    assert left_of(shop, "W1001") == (ERASED_NAME, None, [])
    assert left_of(shop, "W2") == ("[deleted]", None, [DELETED["email"]])


def test_a_refund_leads_to_an_order_that_the_shop_erased_first(shop: Harness) -> None:
    shop.stock(order(shipments=[PARCEL]))
    batch = write(shop)
    assert propose(batch, "W1001", ("K1", 1))["outcome"] == "approved"
    shop.stock(order(shipments=[PARCEL], customer=DELETED))
    with shop.live.database.transaction() as connection:
        (refund,) = refunds.list_of_order(connection, "W1001")
        paid = {"gateway": "g", "gateway_reference": "r", "paid_at": NOW}
        refunds.move(connection, refund, RefundStatus.PAID, **paid)
        inbound.leave_unanswered(connection, batch["mail_ids"], "test")
        erasure.erase(connection, ADA, OLGA, 0, NOW)
    assert left_of(shop, "W1001") == (ERASED_NAME, None, [])


def test_an_order_that_a_shop_sends_without_its_customer_has_no_tracking_number(
    shop: Harness,
) -> None:
    shop.stock(order(shipments=[PARCEL]))
    assert left_of(shop, "W1001")[1] == "T1"
    shop.stock(order(shipments=[PARCEL], customer=DELETED))
    assert left_of(shop, "W1001") == ("[deleted]", None, [])


def test_an_order_that_was_given_to_another_customer_stays_theirs(shop: Harness) -> None:
    for email, name, hours in ((ADA, "Ada", 0), (GRACE, "Grace", 1)):
        customer = {"email": email, "name": name}
        keep(shop.live.database, order_record(customer=customer, shipments=[PARCEL]), hours=hours)
    with shop.live.database.transaction() as connection:
        erasure.erase(connection, ADA, OLGA, 0, NOW)
    assert left_of(shop, "W1001") == ("Grace", "T1", [GRACE])
