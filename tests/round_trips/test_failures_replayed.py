"""Runs that fail at a provider: found in the console, told once, and after the cause is put right replayed in
each way there is. Paid once, written once, and links mailed before still work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent import services
from mailagent.adapters.stripe.gateway import StripeGateway
from mailagent.domain.refunds.order import Order
from mailagent.engine import DELIVERY, REFUND
from mailagent.engine.run import first_step_to_repeat
from mailagent.workflows.steps.operators import report_failed_runs
from tests import stripe_server
from tests.cast import MONA, OLGA, big_order, order
from tests.dbos_command import dbos
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.provider_faults import no_key
from tests.round_trips.replays import ClosedBank, by_our_command, in_the_console, wait_for_quiet
from tests.stripe_server import StripeServer
from tests.workflows.trouble import failing, is_sqlite

KETTLE = "My kettle from order {} arrived broken. I want my money back."
DESK = "The standing desk of order {} is damaged, please refund it."
FOR_EVER = 1000

Way = Callable[[Harness, str], None]


# --- the ways to replay ---------------------------------------------------------------------------


def by_dbos_command(shop: Harness, run_id: str) -> None:
    """Fork as `docs/operate.md` says, with the real command."""
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    step = str(first_step_to_repeat(run))
    dbos(shop, "fork", run_id, "--step", step, "--application-version", "1")


def by_dbos_client(shop: Harness, run_id: str) -> None:
    """Rewind as a program of one's own would; it names no queue of ours."""
    client = DBOSClient(
        system_database_engine=shop.live.database.engine,
        serializer=DBOSPortableJSONSerializer(),
        application_name="mailagent",
    )
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    failed = [step.number for step in run.steps if step.error]
    client.rewind_workflow(run_id, start_step=(failed or [1])[0])
    client.destroy()


WAYS: tuple[Way, ...] = (
    partial(in_the_console, how="rewind"),
    partial(in_the_console, how="fork"),
    by_our_command,
    by_dbos_command,
    by_dbos_client,
)
CUSTOMERS = tuple(f"customer{number}@example.com" for number in range(len(WAYS)))


def orders_of(make: Callable[..., Order]) -> list[Order]:
    """Return an order for each customer: W1000, W1001, …"""
    return [
        make(f"W100{number}", customer={"email": email, "name": "A Customer"})
        for number, email in enumerate(CUSTOMERS)
    ]


def write_all(shop: Harness, text: str) -> None:
    for number, email in enumerate(CUSTOMERS):
        shop.write(text.format(f"W100{number}"), from_address=email)


def wait_for_failed(shop: Harness, workflow: str) -> list[str]:
    """Wait until the run of each customer has failed, and see that the console shows them all."""

    def failed() -> list[str]:
        found = shop.live.workflow_client.runs.list_runs(status="ERROR")
        return [run.run_id for run in found if run.workflow == workflow]

    wait_until(lambda: len(failed()) == len(WAYS), 60, "the runs to fail")
    page = shop.log_in(OLGA).get("/ops/runs?status=failed").text
    assert all(run_id in page for run_id in failed())
    return failed()


def replay_all(shop: Harness, run_ids: list[str]) -> None:
    for way, run_id in zip(WAYS, run_ids, strict=True):
        way(shop, run_id)


def notices(shop: Harness) -> list[str]:
    rows = shop.rows(
        "SELECT subject FROM outbound_mails WHERE purpose = 'notice' ORDER BY created_at"
    )
    return [row.subject for row in rows]


def assert_each_got(shop: Harness, mails: int) -> None:
    for email in CUSTOMERS:
        shop.wait_for_mails(email, mails, 60)
    wait_for_quiet(shop)
    assert {email: len(shop.mails_to(email)) for email in CUSTOMERS} == dict.fromkeys(
        CUSTOMERS, mails
    )


# --- the failures ---------------------------------------------------------------------------------


def test_the_gateway_is_out_of_order(busy_shop: Harness) -> None:
    live = busy_shop.live
    services.bind(replace(live, gateway=ClosedBank(live.database, live.now)))
    busy_shop.stock(*orders_of(order))
    write_all(busy_shop, KETTLE)
    run_ids = wait_for_failed(busy_shop, REFUND)
    told = report_failed_runs()
    assert (told, report_failed_runs()) == (len(WAYS), 0)
    services.bind(live)
    replay_all(busy_shop, run_ids)
    assert_each_got(busy_shop, 2)
    assert len(busy_shop.rows("SELECT 1 FROM ledger_entries")) == len(CUSTOMERS)
    assert {refund.status for refund in busy_shop.refunds()} == {"paid"}
    assert len(notices(busy_shop)) == 1


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({f"pi_{number}": 4999 for number in range(len(WAYS))})
    yield server
    server.stop()


@pytest.fixture
def shop_at_stripe(tmp_path: Path, database_url: str, stripe: StripeServer) -> Iterator[Harness]:
    """A shop at work that has an order of each customer, paid through Stripe."""
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
    }
    with open_shop(tmp_path, database_url, settings) as harness:
        for number, each in enumerate(orders_of(order)):
            paid = replace(each.payments[0], payment_id=f"pi_{number}")
            harness.stock(replace(each, payments=(paid,)))
        with running(harness):
            yield harness


def test_a_refund_that_stripe_refuses_until_somebody_puts_that_right(
    shop_at_stripe: Harness, stripe: StripeServer
) -> None:
    shop = shop_at_stripe
    stripe.refusal = stripe_server.NO_BALANCE
    write_all(shop, KETTLE)
    run_ids = wait_for_failed(shop, REFUND)
    report_failed_runs()
    told = " ".join(shop.wait_for_mails(OLGA)[0].text.split())
    assert "cannot be paid: the shop's balance at the gateway is too low: Insufficient" in told
    assert "balance_insufficient" not in told
    assert {refund.status for refund in shop.refunds()} == {"approved"}
    assert_answered(shop)
    wait_until(shop.at_rest, 30, "the answers to be sent")
    assert [len(shop.mails_to(email)) for email in CUSTOMERS] == [1] * len(CUSTOMERS)
    stripe.refusal = None
    replay_all(shop, run_ids)
    assert_each_got(shop, 2)
    assert {refund.status for refund in shop.refunds()} == {"paid"}
    assert sorted(made["payment"] for made in stripe.refunds) == sorted(stripe.payments)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_refund_that_stripe_makes_and_cannot_carry_out(
    shop_at_stripe: Harness, stripe: StripeServer, at_once: bool
) -> None:
    shop = shop_at_stripe
    if at_once:
        stripe.failing = "insufficient_funds"
    else:
        gateway = StripeGateway("sk_test_17", stripe.url, look_again_seconds=0.3)
        services.bind(replace(shop.live, gateway=gateway))
        stripe.statuses += ["pending"] * len(WAYS)
    write_all(shop, KETTLE)
    if not at_once:
        wait_until(lambda: len(stripe.refunds) == len(WAYS), 60, "Stripe to be asked")
        stripe.settle("failed", failure_reason="insufficient_funds")
    run_ids = wait_for_failed(shop, REFUND)
    report_failed_runs()
    told = " ".join(shop.wait_for_mails(OLGA)[0].text.split())
    assert "is failed: the shop's balance at the gateway is too low; put that right" in told
    assert "insufficient_funds" not in told
    assert {refund.status for refund in shop.refunds()} == {"approved"}
    assert_answered(shop)
    stripe.failing = None
    replay_all(shop, run_ids)
    assert_each_got(shop, 2)
    assert {refund.status for refund in shop.refunds()} == {"paid"}
    assert [len(stripe.succeeded(each)) for each in stripe.payments] == [1] * len(WAYS)


def test_links_mailed_before_still_work(busy_shop: Harness) -> None:
    busy_shop.stock(*orders_of(big_order))
    with failing("look_at_decision"):
        write_all(busy_shop, DESK)
        requests = busy_shop.wait_for_mails(MONA, len(CUSTOMERS), 60)
        assert_answered(busy_shop)
        ring_all(busy_shop)
        run_ids = wait_for_failed(busy_shop, REFUND)
    replay_all(busy_shop, run_ids)
    for request in requests:
        decide(busy_shop, link_in(request.text), "approve")
    assert_each_got(busy_shop, 2)
    assert len(busy_shop.rows("SELECT 1 FROM ledger_entries")) == len(CUSTOMERS)
    assert len(busy_shop.mails_to(MONA)) == len(CUSTOMERS)


def ring_all(shop: Harness) -> None:
    """Have the run of each refund look at its row."""
    with shop.live.database.transaction() as connection:
        for refund in shop.rows("SELECT refund_id, run_id FROM refunds"):
            shop.live.workflow_client.queue.enqueue_refund(
                connection, refund.refund_id, refund.run_id
            )


def assert_answered(shop: Harness) -> None:
    for email in CUSTOMERS:
        shop.wait_for_mails(email, 1, 60)


def test_sendgrid_refuses_for_a_day(busy_shop: Harness) -> None:
    busy_shop.faults.sendgrid += [no_key] * FOR_EVER
    write_all(busy_shop, "Where is my kettle?")
    wait_until(lambda: len(deliveries(busy_shop)) == len(WAYS), 60, "the mails to wait")
    wait_until(lambda: not still_sending(busy_shop), 20, "the refusals to be recorded")
    assert notices(busy_shop) == ["SendGrid has refused mail of ours"]
    run_ids = deliveries(busy_shop)
    for run_id in run_ids:
        busy_shop.live.workflow_client.replays.cancel_run(run_id)
    a_day_passes(busy_shop)
    busy_shop.faults.sendgrid.clear()
    replay_all(busy_shop, run_ids)
    for email in CUSTOMERS:
        assert len(busy_shop.wait_for_mails(email, 1, 60)) == 1
    assert len(notices(busy_shop)) == 1


def deliveries(shop: Harness) -> list[str]:
    """Return the runs that see to the customers' mails."""
    rows = shop.rows("SELECT outbound_id FROM outbound_mails WHERE purpose = 'reply'")
    replies = {row.outbound_id for row in rows}
    runs = shop.live.workflow_client.runs.list_runs()
    return [run.run_id for run in runs if run.workflow == DELIVERY and run.subject in replies]


def still_sending(shop: Harness) -> bool:
    waits = "purpose = 'reply' AND (next_attempt_at IS NULL OR status <> 'queued')"
    return bool(shop.rows(f"SELECT 1 FROM outbound_mails WHERE {waits}"))


def a_day_passes(shop: Harness) -> None:
    earlier = "datetime({}, '-1 day')" if is_sqlite(shop) else "{} - interval '1 day'"
    values = ", ".join(
        f"{column} = {earlier.format(column)}" for column in ("created_at", "next_attempt_at")
    )
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"UPDATE outbound_mails SET {values} WHERE purpose = 'reply'"))
