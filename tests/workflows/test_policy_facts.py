"""The facts that a refund is decided by, from rows: exact under concurrency, and kept with the decision."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import (
    Cap,
    Caps,
    CustomerCap,
    KeepOffers,
    LateParcels,
    ManagerReason,
    Named,
    Policy,
)
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.store import schema
from mailagent.store.mail import inbound
from mailagent.store.refunds import policies, refunds
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, NOW, SUPPORT, order
from tests.harness import Harness
from tests.tool_use import use
from tests.web.mail_with_files import mail_with
from tests.workflows.cancelling import keep_version
from tests.workflows.proposals import batch_of, propose, write

PHOTO = ("kettle.jpg", "image/jpeg", b"\xff\xd8" * 6_000)
MANY = 8


def under(shop: Harness, **rules: Any) -> None:
    """Have the shop decide by other rules."""
    services.bind(replace(shop.live, policy=Policy(**rules)))


def kettle_of(customer: str, number: int, **changes: Any) -> Order:
    return order(f"W{number}", customer={"email": customer, "name": "A customer"}, **changes)


def post(shop: Harness, message_id: str, *files: tuple[str, str, bytes]) -> Batch:
    """Have Ada write a mail with files."""
    assert shop.post_inbound(mail_with(*files, message_id=message_id)).status_code == 200
    return batch_of(shop, message_id)


def propose_at_once(shop: Harness, customers: Sequence[str]) -> list[dict[str, Any]]:
    """Have many ask for a kettle of their own, each in a thread of its own, all at once."""
    for number, customer in enumerate(customers):
        shop.stock(kettle_of(customer, number))
    asked = [write(shop, each, f"kettle {number}") for number, each in enumerate(customers)]
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(propose, asked, [f"W{number}" for number in range(len(customers))]))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (Caps(customer=CustomerCap(count=3)), ManagerReason.CUSTOMER_CAP),
        (Caps(customer=CustomerCap({"USD": 3 * 49_99})), ManagerReason.CUSTOMER_CAP),
        (Caps(day=Cap(count=3)), ManagerReason.DAY_CAP),
    ],
    ids=["a customer's count", "a customer's money", "a day's count"],
)
def test_a_cap_holds_when_orders_are_asked_for_at_once(
    shop: Harness, rules: Caps, reason: ManagerReason
) -> None:
    under(shop, caps=rules)
    customers = [ADA, GRACE] * (MANY // 2) if rules.day else [ADA] * MANY
    outcomes = [told["outcome"] for told in propose_at_once(shop, customers)]
    assert (outcomes.count("approved"), outcomes.count("needs_manager")) == (3, MANY - 3)
    waiting = [each for each in shop.refunds() if each.status is RefundStatus.AWAITING_APPROVAL]
    assert {each.policy_reasons for each in waiting} == {(reason.value,)}


def test_a_customers_cap_is_nobody_elses_and_ends(shop: Harness) -> None:
    under(shop, caps=Caps(customer=CustomerCap(count=1, days=7)))
    told = propose_at_once(shop, [ADA, GRACE])
    assert [each["outcome"] for each in told] == ["approved", "approved"]
    shop.stock(kettle_of(ADA, 7), kettle_of(ADA, 8))
    assert propose(write(shop, subject="soon"), "W7")["outcome"] == "needs_manager"
    with shop.live.database.transaction() as connection:
        connection.execute(schema.refunds.update().values(requested_at=NOW.replace(year=2020)))
    assert propose(write(shop, subject="later"), "W8")["outcome"] == "approved"


def test_what_a_person_decided_or_nobody_paid_counts_towards_no_cap(shop: Harness) -> None:
    propose_at_once(shop, [ADA, ADA, ADA])
    first, second, _ = shop.refunds()
    with shop.live.database.transaction() as connection:
        connection.execute(
            schema.refunds.update()
            .where(schema.refunds.c.refund_id == first.refund_id)
            .values(decided_by="mona@shop.example")
        )
        refunds.move(connection, refunds.lock(connection, second.refund_id), RefundStatus.FAILED)
        dollars = policies.granted(connection, NOW.replace(year=2020), "USD", ADA)
        euros = policies.granted(connection, NOW.replace(year=2020), "EUR")
    assert (dollars.count, dollars.minor) == (1, 49_99)
    assert (euros.count, euros.minor) == (1, 0)


def test_a_decision_keeps_its_facts_and_the_text_that_it_was_made_by(shop: Harness) -> None:
    under(shop, version="spring", source="# one", caps=Caps(customer=CustomerCap(count=5)))
    shop.stock(order())
    asked = write(shop)
    propose(asked, "W1001")
    under(shop, version="spring", source="# another")
    shop.stock(order("W2"), order("W3"))
    propose(write(shop, subject="two"), "W2")
    propose(write(shop, subject="three"), "W3")
    one, two, three = shop.refunds()
    versions = {row.version: row.source for row in shop.rows("SELECT * FROM policy_versions")}
    assert [versions[str(each.policy_version)] for each in (one, two, three)] == [
        "# one",
        "# another",
        "# another",
    ]
    assert (one.policy_version, len(versions)) == ("spring", 2)
    with shop.live.database.snapshot() as connection:
        came_at = inbound.last_received_at(connection, asked["mail_ids"])
        kept = connection.scalars(
            sa.select(schema.refunds.c.policy_facts).order_by(schema.refunds.c.refund_id)
        ).all()
    delivered_at = order().delivered_at
    assert delivered_at is not None
    assert kept[0] == {
        "amount": "49.99 USD",
        "remaining": "49.99 USD",
        "charged_back": "0.00 USD",
        "order_status": "delivered",
        "delivered_at": delivered_at.isoformat(),
        "reason": "damaged",
        "lines": [{"item_id": "K1", "category": None, "final_sale": False}],
        "methods": ["card"],
        "photos": 0,
        "maybe_logos": 0,
        "refused_before": [],
        "shared_payments": [],
        "granted_unasked": {"count": 0, "amount": "0.00 USD"},
        "of_customer": {"count": 0, "amount": "0.00 USD"},
        "of_day": None,
        "seen_by_one": "0.00 USD",
        "items_before": False,
        "worth": "49.99 USD",
        "price": None,
        "elsewhere": None,
        "parcels": [],
        "parcels_hold_all": False,
        "cancels": False,
        "asked_at": came_at.isoformat(),
    }


def test_without_a_photo_a_refund_is_declined_on_record_and_with_one_it_is_made(
    shop: Harness,
) -> None:
    under(shop, photo_reasons=frozenset({RefundReason.DAMAGED}))
    shop.stock(order())
    told = propose(post(shop, "m1@example.com", ("a.txt", "text/plain", b"x" * 20_000)), "W1001")
    assert (told["outcome"], told["reason"]) == ("declined", "photo_needed")
    assert told["facts"][0] == "declined/W1001"
    (record,) = shop.rows("SELECT * FROM audit WHERE action = 'refund declined'")
    assert (record.actor, record.subject) == ("policy", "W1001")
    assert propose(post(shop, "m2@example.com", PHOTO), "W1001")["outcome"] == "approved"


def test_a_photo_in_a_mail_of_nobody_proven_counts_for_nothing(shop: Harness) -> None:
    under(shop, photo_reasons=frozenset({RefundReason.DAMAGED}))
    shop.stock(order())
    batch = post(shop, "m1@example.com", PHOTO)
    with shop.live.database.transaction() as connection:
        connection.execute(schema.inbound_mails.update().values(identity="none"))
    assert propose(batch, "W1001")["reason"] == "photo_needed"


def test_what_was_given_back_elsewhere_is_not_left(shop: Harness) -> None:
    shop.stock(order())
    with shop.live.database.transaction() as connection:
        connection.execute(
            schema.external_refunds.insert().values(
                reference="re_1",
                gateway="stripe",
                order_id="W1001",
                payment_id="pay_W1001",
                amount_minor=1,
                currency="USD",
                seen_at=NOW,
            )
        )
    assert propose(write(shop), "W1001")["amount"] == "49.98 USD"
    assert shop.refunds()[0].policy_reasons == ("part_refunded_elsewhere",)


@pytest.mark.parametrize(("refunded", "is_managers"), [("9.99", False), ("10.00", True)])
def test_what_a_colleague_may_have_refunded_is_not_refunded_again_without_a_manager(
    shop: Harness, refunded: str, is_managers: bool
) -> None:
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "39.99"}
    mug = kettle | {"item_id": "M1", "name": "Mug", "unit_price": "10.00"}
    shop.stock(order(items=[kettle, mug]))
    batch = write(shop, text="The mug of W1001 is broken. I want my money back.")
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": refunded}
    keep_version(shop, order(items=[kettle, mug], payments=[paid]))
    told = propose(batch, "W1001", ("M1", None))
    assert (told["outcome"] == "needs_manager") is is_managers
    reasons = (ManagerReason.REMAINDER.value,) if is_managers else ()
    assert shop.refunds()[0].policy_reasons == reasons
    with shop.live.database.snapshot() as connection:
        kept = connection.scalars(sa.select(schema.refunds.c.policy_facts)).one()
    assert kept is not None
    assert kept["elsewhere"] == f"{refunded} USD"


@pytest.mark.parametrize(
    ("refunded", "outcome"), [("39.98", "offered"), ("39.99", "needs_manager")]
)
def test_a_refund_elsewhere_below_the_price_does_not_keep_from_an_offer(
    shop: Harness, refunded: str, outcome: str
) -> None:
    offers = KeepOffers({RefundReason.DAMAGED: 30})
    services.bind(replace(shop.live, policy=Policy(keep_offers=offers)))
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "39.99"}
    lamp = kettle | {"item_id": "L1", "name": "Lamp", "unit_price": "60.00"}
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "99.99", "refunded": refunded}
    shop.stock(order(items=[kettle, lamp], payments=[paid]))
    assert propose(write(shop), "W1001")["outcome"] == outcome


def test_a_charged_back_order_is_the_banks(shop: Harness) -> None:
    paid = {"payment_id": "p", "method": "card", "amount": "49.99"}
    shop.stock(order(payments=[{**paid, "charged_back_at": NOW.isoformat()}]))
    told = propose(write(shop), "W1001")
    assert told["reason"] == "charged_back"
    assert "hand_over" in told["say"]


@pytest.mark.parametrize(("given_back", "amount"), [(True, "54.99 USD"), (False, "49.99 USD")])
def test_carriage_goes_back_where_the_policy_says_so(
    shop: Harness, given_back: bool, amount: str
) -> None:
    under(shop, refund_shipping=given_back)
    paid = {"payment_id": "p", "method": "card", "amount": "54.99"}
    shop.stock(order(payments=[paid], shipping="5.00"))
    assert propose(write(shop), "W1001")["amount"] == amount


def test_above_the_tier_two_people_are_on_record_as_needed_also_for_parts(shop: Harness) -> None:
    under(shop, limits={"USD": 10_00}, four_eyes_above={"USD": 60_00})
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    paid = {"payment_id": "p", "method": "card", "amount": "99.98"}
    shop.stock(order(items=[kettle, kettle | {"item_id": "K2"}], payments=[paid]))
    for item_id in ("K1", "K2"):
        wish = {"order_id": "W1001", "items": [{"item_id": item_id, "quantity": 1}]}
        told = use(propose_refund, write(shop, subject=item_id), wish | {"reason": "damaged"})
        assert told["outcome"] == "needs_manager"
    one, other = shop.refunds()
    assert (one.four_eyes, one.policy_reasons) == (False, ("above_limit",))
    assert (other.four_eyes, other.policy_reasons) == (True, ("above_limit", "above_four_eyes"))


def test_one_of_several_alike_that_was_rejected_comes_back_to_a_manager(shop: Harness) -> None:
    under(shop, always_ask=Named(reasons=frozenset({RefundReason.DAMAGED})))
    kettles = {"item_id": "K1", "name": "Kettle", "quantity": 3, "unit_price": "10.00"}
    paid = {"payment_id": "p", "method": "card", "amount": "30.00"}
    shop.stock(order(items=[kettles], payments=[paid]))
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "needs_manager"
    with shop.live.database.transaction() as connection:
        asked = refunds.lock(connection, shop.refunds()[0].refund_id)
        refunds.move(connection, asked, RefundStatus.REJECTED)
    under(shop)
    assert propose(write(shop, subject="Again"), "W1001", ("K1", 1))["outcome"] == "needs_manager"
    assert shop.refunds()[1].policy_reasons == (ManagerReason.REJECTED_BEFORE.value,)


def test_an_order_whose_payment_another_order_names_is_for_a_manager(shop: Harness) -> None:
    paid = {"payment_id": "pay_same", "method": "card", "amount": "49.99"}
    shop.stock(order("W1", payments=[paid]), order("W2", payments=[paid]), order("W3"))
    assert propose(write(shop, subject="one"), "W1")["outcome"] == "needs_manager"
    assert propose(write(shop, subject="three"), "W3")["outcome"] == "approved"
    (waits, _) = shop.refunds()
    assert waits.policy_reasons == (ManagerReason.PAYMENT_SHARED.value,)


def test_a_parcel_that_moved_is_waited_for_and_a_lost_one_is_refunded(shop: Harness) -> None:
    under(shop, late_parcels=LateParcels(ask_after_days=5, refund_after_days=14))
    shipped_at = shop.live.now() - timedelta(days=10)

    def send(last_event_at: datetime) -> None:
        times = {"shipped_at": shipped_at.isoformat(), "last_event_at": last_event_at.isoformat()}
        parcel = {"shipment_id": "JD1", "status": "in_transit", "tracking_number": "JD1"} | times
        placed = {"placed_at": (shipped_at - timedelta(days=90)).isoformat()}
        shop.stock(order(status="shipped", delivered_at=None, shipments=[parcel], **placed))

    send(shop.live.now() - timedelta(days=4))
    declined = propose(write(shop), "W1001", reason="not_delivered")
    assert (declined["outcome"], declined["reason"]) == ("declined", "parcel_on_its_way")
    shipped_at -= timedelta(days=20)
    send(shop.live.now() - timedelta(days=14))
    told = propose(write(shop, subject="Still nothing"), "W1001", reason="not_delivered")
    assert told["outcome"] == "approved"
    with shop.live.database.snapshot() as connection:
        facts = connection.scalar(sa.select(schema.refunds.c.policy_facts))
    assert facts is not None
    (parcel,) = facts["parcels"]
    assert (parcel["shipment_id"], parcel["status"]) == ("1", "in_transit")
    (refusal,) = shop.rows("SELECT details FROM audit WHERE action = 'refund declined'")
    assert "JD1" not in f"{facts} {refusal}"


@pytest.mark.parametrize(
    ("size", "outcome"), [(8_000, "declined"), (18_000, "needs_manager"), (200_000, "approved")]
)
def test_a_manager_looks_at_a_small_picture_in_the_text(
    shop: Harness, size: int, outcome: str
) -> None:
    under(shop, photo_reasons=frozenset({RefundReason.DAMAGED}))
    shop.stock(order())
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = ADA, SUPPORT, "My kettle"
    mail["Message-ID"], mail["Date"] = "<logo@example.com>", format_datetime(shop.live.now())
    mail.set_content("The kettle of order W1001 is broken.")
    mail.add_alternative('<p>The kettle is broken.</p><img src="cid:logo@x">', subtype="html")
    *_, html = mail.iter_parts()
    html.add_related(b"\x89PNG" + b"x" * size, "image", "png", cid="<logo@x>")
    assert shop.post_inbound(raw_request(mail.as_bytes())).status_code == 200
    batch = batch_of(shop, "logo@example.com")
    assert propose(batch, "W1001")["outcome"] == outcome
    with shop.live.database.snapshot() as connection:
        found = refunds.list_of_order(connection, "W1001")
    reasons = {str(each) for refund in found for each in refund.policy_reasons}
    unsure = ManagerReason.PHOTO_UNSURE.value
    assert reasons == ({unsure} if outcome == "needs_manager" else set())
