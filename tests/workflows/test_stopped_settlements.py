"""What the ledger recorded is not paid any more if its order was cancelled, charged back or refunded since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.settlement_file import read_outcomes, write_settlements
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    PaymentGateway,
    PaymentOutcome,
    RefundRequest,
)
from mailagent.domain.refunds.settlement import Outcome, SettlementProblem, SettlementState
from mailagent.domain.remedies.remedy import Remedy, RemedyItem, RemedyKind, RemedyStatus, TaskStop
from mailagent.settling import settle, settle_all
from mailagent.store.refunds import (
    credits,
    external_refunds,
    order_import,
    remedies,
    settlements,
    stops,
)
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.maintenance.tasks import tell_overdue_settlements
from tests.cast import OLGA, order
from tests.harness import Harness, open_shop, pass_time, post_form
from tests.workflows.cancelling import PlayedSource, keep_version, with_source
from tests.workflows.paying import pay, tell
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

PATH = "/ops/settlements"
PAYMENT: dict[str, Any] = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
GONE = {"status": "cancelled", "payments": [PAYMENT | {"refunded": "49.99"}]}
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "cancelled": (GONE, "the order was cancelled"),
    "charged back": (
        {"payments": [PAYMENT | {"charged_back_at": "2026-11-26T09:00:00Z"}]},
        "(chargeback)",
    ),
    "refunded elsewhere": ({"payments": [PAYMENT | {"refunded": "49.99"}]}, "elsewhere"),
    "of another customer": ({"customer": {"email": "x@shop.example"}}, "another address"),
}


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that has Ada's refund in its ledger, to be paid."""
    with open_shop(tmp_path, database_url, {"MAILAGENT_SETTLES": ""}) as shop:
        shop.stock(order(payments=[PAYMENT]), order("W3"))
        for order_id in ("W1001", "W3"):
            propose(write(shop, subject=order_id), order_id)
            assert pay(shop.refunds()[-1].refund_id)["status"] == "approved"
        yield shop


def change(shop: Harness, **changes: Any) -> None:
    with shop.live.database.transaction() as connection:
        known = order_import.without_known_refunds(connection, order(**changes))
        order_import.save(connection, known, shop.live.now())


def key(shop: Harness) -> str:
    return shop.refunds()[0].refund_id


def say(shop: Harness, state: SettlementState, **values: Any) -> bool:
    with shop.live.database.transaction() as connection:
        return settle(connection, Outcome(key(shop), state, **values), OLGA)


@pytest.mark.parametrize("how", CHANGES)
def test_what_must_not_be_paid_any_more_says_so_and_is_not_ticked_off(
    shop: Harness, how: str
) -> None:
    changes, why = CHANGES[how]
    change(shop, **({"payments": [PAYMENT]} | changes))
    client = shop.log_in(OLGA)
    page = client.get(PATH).text.replace("&#39;", "'")
    assert page.count("do not pay") == 1
    assert why in page
    refused = post_form(client, f"{PATH}/{key(shop)}", PATH, settle="yes")
    assert (refused.status_code, "say that it was paid before" in refused.text) == (422, True)
    assert pay(key(shop))["status"] == "approved"
    pass_time(shop, days=8)
    tell_overdue_settlements()
    (told,) = shop.rows("SELECT text FROM outbound_mails WHERE subject LIKE '%not paid in time%'")
    assert told.text.count("do not pay it: ") == 1
    assert say(shop, SettlementState.FAILED, reason=why)
    assert pay(key(shop))["status"] == "failed"


def test_a_refused_form_keeps_what_was_typed_and_its_list(shop: Harness) -> None:
    client, path = shop.log_in(OLGA), f"{PATH}/{key(shop)}"
    change(shop, **GONE)
    refused = post_form(client, path, PATH, settle="yes", reference="SEPA 77")
    assert (refused.status_code, refused.text.count('value="SEPA 77"')) == (422, 1)
    post_form(client, path, PATH, settle="yes", reference="SEPA 77", paid_before="yes")
    paid = client.get(f"{PATH}?state=settled").text
    assert f'action="{path}?state=settled"' in paid
    came_back = {"fail": "yes", "came_back": "yes"}
    refused = post_form(client, f"{path}?state=settled", PATH, **came_back)
    assert refused.status_code == 422
    assert "<details open><summary>It came back" in refused.text
    post_form(client, path, PATH, reason="The account is closed.", **came_back)
    lost = post_form(client, path, PATH, settle="yes", reference="SEPA 78")
    assert "readonly>SEPA 78</textarea>" in lost.text


def test_what_was_paid_before_is_on_record_with_the_reason(shop: Harness) -> None:
    change(shop, **GONE)
    client = shop.log_in(OLGA)
    post_form(client, f"{PATH}/{key(shop)}", PATH, settle="yes", paid_before="yes")
    assert pay(key(shop))["status"] == "paid"
    (act,) = shop.rows("SELECT details FROM audit WHERE action = 'payment settled'")
    assert "the order was cancelled" in str(act.details)


def test_a_file_says_so_too(shop: Harness) -> None:
    change(shop, **GONE)
    with shop.live.database.snapshot() as connection:
        found = settlements.list_open(connection)
        stopped = stops.find_stops(connection, [each.refund_id for each in found])
    assert list(stopped) == [key(shop)]
    text = write_settlements(found, stopped)
    assert text.count("the order was cancelled") == 1
    with (
        pytest.raises(SettlementProblem, match="paid before"),
        shop.live.database.transaction() as connection,
    ):
        settle(connection, Outcome(key(shop), SettlementState.SETTLED), OLGA)
    filled = text.replace("it was paid,,,", "it was paid,paid_before,,")
    with shop.live.database.transaction() as connection:
        assert settle_all(connection, read_outcomes(filled.encode()), OLGA) == 1
    assert pay(key(shop))["status"] == "paid"


def test_what_could_not_be_paid_after_all_is_never_told_as_refunded(shop: Harness) -> None:
    """A person says "paid", and then "could not be paid", between the run's look and its record."""
    say(shop, SettlementState.SETTLED)
    failed = partial(say, shop, SettlementState.FAILED, reason="wrong account", came_back=True)
    services.bind(replace(services.current(), gateway=Late(shop.live.gateway, failed)))
    assert pay(key(shop))["status"] == "failed"
    tell(key(shop))
    texts = [each.text for each in shop.rows("SELECT text FROM outbound_mails")]
    assert not [each for each in texts if "We have refunded" in each]
    assert any("wrong account" in each for each in texts)


@dataclass
class Late:
    """The ledger, of which something is said just after each look."""

    ledger: PaymentGateway
    then: Callable[[], object]
    name: str = "ledger"

    def is_remote(self, request: RefundRequest) -> bool:
        return self.ledger.is_remote(request)

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        return self.ledger.refund(request)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        found = self.ledger.look_up(request)
        self.then()
        return found

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        return self.ledger.list_refunds(payment_id)


# W7, a kettle and a lamp, whose shop has a system of its own.
TWO_ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
    {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "30.00"},
]


PAID_BY = {1: [("by_hand", "79.99")], 2: [("gift", "20.00"), ("by_hand", "59.99")]}


def listed_from_source(shop: Harness, payments: int = 1, bonus: int | None = None) -> PlayedSource:
    """Have the kettle of W7 in the ledger, with a bonus as store credit; its order is in the shop's system, and
    has so many payments."""
    source = with_source(shop)
    refunded(source, *["0.00"] * payments)
    found = source.load_order("W7")
    assert found is not None
    shop.stock(found)
    keep_version(shop, found)
    assert ask(shop, "K1") == "approved"
    with shop.live.database.transaction() as connection:
        credits.choose(connection, shop.refunds()[-1], bonus)
    assert pay(shop.refunds()[-1].refund_id)["status"] == "approved"
    pass_time(shop, hours=1)
    return source


def refunded(source: PlayedSource, *amounts: str) -> None:
    """Let the shop's system say that so much of each payment of W7 was refunded."""
    source.orders = lambda _: order("W7", items=TWO_ITEMS, payments=payments_of_w7(*amounts))


def payments_of_w7(*refunded: str) -> list[dict[str, str]]:
    return [
        {"payment_id": name, "method": "card", "amount": paid, "refunded": amount}
        for (name, paid), amount in zip(PAID_BY[len(refunded)], refunded, strict=True)
    ]


def ask(shop: Harness, item_id: str) -> Any:
    return propose(write(shop, subject=item_id), "W7", (item_id, None))["outcome"]


def elsewhere(shop: Harness) -> int:
    with shop.live.database.snapshot() as connection:
        return external_refunds.given_back_minor(connection, "W7")


@pytest.mark.parametrize("seen_before", [False, True])
def test_what_people_pay_in_the_shops_system_counts_once(shop: Harness, seen_before: bool) -> None:
    source = listed_from_source(shop)
    refunded(source, "49.99")  # days before anybody says so here
    if seen_before:
        order_source.refresh("W7")
        assert elsewhere(shop) == 0
        pass_time(shop, days=2)
    refund_id = shop.refunds()[-1].refund_id
    with shop.live.database.transaction() as connection:
        paid = Outcome(refund_id, SettlementState.SETTLED, paid_before=True)
        assert settle(connection, paid, OLGA)
    assert pay(refund_id)["status"] == "paid"
    order_source.refresh("W7")
    assert elsewhere(shop) == 0
    (told,) = tell(refund_id)
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE outbound_id = :id", id=told)
    assert "already been paid back" not in mail.text
    assert ask(shop, "L1") == "approved"


def test_both_payments_of_a_refund_are_paid_in_the_shops_system(shop: Harness) -> None:
    source = listed_from_source(shop, 2)
    refund_id = shop.refunds()[-1].refund_id
    told = (
        (refund_id, ("20.00", "0.00"), "approved"),
        (f"{refund_id}.2", ("20.00", "29.99"), "paid"),
    )
    for name, amounts, status in told:
        refunded(source, *amounts)
        with shop.live.database.transaction() as connection:
            assert settle(
                connection, Outcome(name, SettlementState.SETTLED, paid_before=True), OLGA
            )
        assert pay(refund_id)["status"] == status
        pass_time(shop, hours=1)
    assert elsewhere(shop) == 0


@pytest.mark.parametrize("bonus", [None, 10])
def test_what_the_shops_system_may_have_paid_is_not_paid_unasked(
    shop: Harness, bonus: int | None
) -> None:
    source = listed_from_source(shop, bonus=bonus)
    refund_id = shop.refunds()[-1].refund_id

    def stopped() -> set[str]:
        with shop.live.database.snapshot() as connection:
            return set(stops.find_stops(connection, [refund_id, key(shop)]))

    for amount, wanted in (("0.00", set()), ("30.00", set()), ("30.01", {refund_id})):
        refunded(source, amount)
        order_source.refresh("W7")
        assert stopped() == wanted, amount


def find_stops(shop: Harness) -> dict[str, str]:
    with shop.live.database.snapshot() as connection:
        return stops.find_stops(connection, [each.refund_id for each in shop.refunds()])


@pytest.mark.parametrize(
    ("bonus", "amount", "why"),
    [
        (10, "49.99", stops.ELSEWHERE),
        (10, "30.00", stops.REFUSED),  # enough is left of the order
        (None, "59.99", stops.ELSEWHERE),
    ],
)
def test_what_the_shops_system_refunded_with_its_item_is_not_paid_unasked(
    shop: Harness, bonus: int | None, amount: str, why: str
) -> None:
    source = listed_from_source(shop, bonus=bonus)
    refund_id = shop.refunds()[-1].refund_id
    source.orders = lambda _: order("W7", items=TWO_ITEMS[1:], payments=payments_of_w7(amount))
    for _ in range(2):
        assert order_source.refresh("W7") is Freshness.REFUSED
        assert find_stops(shop) == {refund_id: why}
    assert pay(refund_id)["status"] == "approved"
    assert shop.log_in(OLGA).get(PATH).text.count("do not pay") == 1
    paid = Outcome(refund_id, SettlementState.SETTLED, bank_reference="CODE-1")
    with (
        pytest.raises(SettlementProblem, match="paid before"),
        shop.live.database.transaction() as connection,
    ):
        settle(connection, paid, OLGA)
    refunded(source, "0.00")  # the colleague's refund came back
    assert order_source.refresh("W7") is Freshness.FRESH
    assert find_stops(shop) == {}


def test_what_the_shops_system_has_no_usable_record_of_is_not_paid_unasked(shop: Harness) -> None:
    source = listed_from_source(shop)
    answers = {
        stops.GONE: lambda _: None,
        stops.UNUSABLE: lambda _: order("W8"),
    }
    for why, answer in answers.items():
        source.orders = answer
        order_source.refresh("W7")
        assert find_stops(shop) == {shop.refunds()[-1].refund_id: why}
    refunded(source, "0.00")
    order_source.refresh("W7")
    assert find_stops(shop) == {}


def test_a_task_for_an_item_that_the_shops_system_refunded_is_stopped(shop: Harness) -> None:
    source = listed_from_source(shop, bonus=10)
    refund, now = shop.refunds()[-1], shop.live.now()
    lamp = Remedy(
        *("remedy_1", RemedyKind.REPLACEMENT, RemedyStatus.TASK, "W7", refund.conversation_id),
        *(refund.mail_id, (RemedyItem("L1", "Lamp", 1),), now, now + timedelta(days=3)),
    )
    with shop.live.database.transaction() as connection:
        remedies.record(connection, lamp, "key")
    source.orders = lambda _: order("W7", items=TWO_ITEMS[:1], payments=payments_of_w7("30.00"))
    assert order_source.refresh("W7") is Freshness.REFUSED
    with shop.live.database.snapshot() as connection:
        assert stops.find_task_stops(connection, [lamp]) == {"remedy_1": TaskStop.ELSEWHERE}


@pytest.mark.parametrize("comes_by", ["source", "file"])
def test_what_is_refunded_in_the_shops_system_is_not_the_store_credit(
    shop: Harness, comes_by: str
) -> None:
    source = listed_from_source(shop, bonus=10)
    refund_id = shop.refunds()[-1].refund_id
    with shop.live.database.transaction() as connection:
        given = Outcome(refund_id, SettlementState.SETTLED, bank_reference="CODE-1")
        assert settle(connection, given, OLGA)
    assert pay(refund_id)["status"] == "paid"
    pass_time(shop, days=2)
    refunded(source, "30.00")  # the lamp
    if comes_by == "source":
        order_source.refresh("W7")
    else:
        change(shop, order_id="W7", items=TWO_ITEMS, payments=payments_of_w7("30.00"))
    assert elsewhere(shop) == 30_00
    assert ask(shop, "L1") == "declined"


def test_what_could_not_be_paid_was_refunded_by_others(shop: Harness) -> None:
    source = listed_from_source(shop)
    refunded(source, "49.99")
    refund_id = shop.refunds()[-1].refund_id
    with shop.live.database.transaction() as connection:
        failed = Outcome(refund_id, SettlementState.FAILED, reason="a colleague has paid it")
        assert settle(connection, failed, OLGA)
    assert pay(refund_id)["status"] == "failed"
    assert elsewhere(shop) == 49_99


@pytest.mark.parametrize(("recorded", "is_all"), [("49.99", False), ("79.99", True)])
def test_one_refund_in_the_shops_system_is_not_told_as_two(
    shop: Harness, recorded: str, is_all: bool
) -> None:
    shop.stock(order("W7", items=TWO_ITEMS, payments=payments_of_w7("0.00")))
    for item_id in ("K1", "L1"):
        assert ask(shop, item_id) == "approved"
    kettle, lamp = (each.refund_id for each in shop.refunds()[-2:])
    for refund_id in (kettle, lamp):
        assert pay(refund_id)["status"] == "approved"
    # People pay the kettle in the shop's system, and its export comes before they say so here.
    shop.stock(order("W7", items=TWO_ITEMS, payments=payments_of_w7(recorded)))
    told = (
        Outcome(kettle, SettlementState.SETTLED, paid_before=True),
        Outcome(lamp, SettlementState.FAILED, reason="do not pay"),
    )
    for outcome, status in zip(told, ("paid", "failed"), strict=True):
        with shop.live.database.transaction() as connection:
            assert settle(connection, outcome, OLGA)
        assert pay(outcome.idempotency_key)["status"] == status
    assert is_told_as_paid_back(shop, lamp) is is_all


def test_the_part_of_a_refund_that_was_paid_is_not_told_as_paid_back_before(shop: Harness) -> None:
    source = listed_from_source(shop, 2)
    refund_id = shop.refunds()[-1].refund_id
    refunded(source, "20.00", "59.99")
    order_source.refresh("W7")
    told = (
        (Outcome(refund_id, SettlementState.SETTLED, paid_before=True), "approved"),
        (Outcome(f"{refund_id}.2", SettlementState.FAILED, reason="do not pay"), "failed"),
    )
    for outcome, status in told:
        with shop.live.database.transaction() as connection:
            assert settle(connection, outcome, OLGA)
        assert pay(refund_id)["status"] == status
    assert not is_told_as_paid_back(shop, refund_id)


def is_told_as_paid_back(shop: Harness, refund_id: str) -> bool:
    outbound_ids = tell(refund_id)
    texts = {each.outbound_id: each.text for each in shop.rows("SELECT * FROM outbound_mails")}
    return "had already been paid back" in texts[outbound_ids[0]]


def test_what_may_be_paid_is_ticked_off_as_before(shop: Harness) -> None:
    change(shop, payments=[PAYMENT])
    assert "do not pay" not in shop.log_in(OLGA).get(PATH).text
    assert say(shop, SettlementState.SETTLED)
    assert pay(key(shop))["status"] == "paid"


def test_the_shops_own_words_are_no_codes_of_a_gateway(shop: Harness) -> None:
    assert say(shop, SettlementState.FAILED, reason="Wrong bank data: our bank declined")
    assert pay(key(shop))["status"] == "failed"
    page = shop.log_in(OLGA).get(f"/ops/refunds/{key(shop)}").text
    assert "our bank declined" in page
    assert "<code>declined</code>" not in page


@pytest.mark.parametrize(
    ("kind", "queries"), [(RemedyKind.RETURN, "one"), (RemedyKind.REPLACEMENT, "more")]
)
def test_only_what_was_sent_again_is_read_settlement_by_settlement(
    shop: Harness, kind: RemedyKind, queries: str
) -> None:
    (refund, other), now = shop.refunds(), shop.live.now()
    done = Remedy(
        *("remedy_1", kind, RemedyStatus.DONE, refund.order_id, refund.conversation_id),
        *(other.mail_id, (), refund.requested_at, now + timedelta(days=3)),
        decided_by=OLGA,
        decided_at=now,
    )
    with shop.live.database.transaction() as connection:
        remedies.record(connection, done, "key")
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        asked.extend([statement] if statement.startswith("SELECT") else [])

    with shop.live.database.snapshot() as connection:
        sa.event.listen(connection, "before_cursor_execute", note)
        found = stops.find_stops(connection, [each.refund_id for each in shop.refunds()])
    assert (len(asked) == 1) is (queries == "one"), asked
    assert list(found) == ([] if kind is RemedyKind.RETURN else [refund.refund_id])
