"""Store credit from the customer's mail to the receipt with its code: chosen by answering, given once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailagent.store.operations import daily_figures
from tests.cast import ADA, DESK_WISH, MONA, OLGA, big_order
from tests.cli.commands import flask
from tests.harness import Harness, open_shop, post_form, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet
from tests.web.doors import METRICS_TOKEN

PATH = "/ops/settlements"
CREDIT, MONEY = "$1,648.90", "$1,499.00"


@pytest.fixture
def crediting_shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that gives store credit with ten percent more, and counts its ledger as paid at once."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[store_credit]\nbonus_percent = 10\n", "utf-8")
    settings = {"REFUND_POLICY": str(policy), "METRICS_TOKEN": METRICS_TOKEN}
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        shop.stock(big_order())
        yield shop


def choose(shop: Harness) -> str:
    """Let Ada ask for her money, and choose store credit in her answer; return the manager's link."""
    shop.write(DESK_WISH)
    (told,) = shop.wait_for_mails(ADA)
    assert f"Instead of {MONEY} you can choose store credit of {CREDIT}" in told.text
    shop.write("I take the store credit, please.", in_reply_to=told.message_id)
    answer = shop.wait_for_mails(ADA, 2)[-1]
    assert f"You have chosen store credit of {CREDIT} for it." in answer.text
    assert f"You have chosen: store credit of {CREDIT}" in answer.text  # on record
    (request,) = shop.wait_for_mails(MONA)
    return link_in(request.text)


def settlement(shop: Harness) -> str:
    rows = "SELECT idempotency_key FROM ledger_settlements"
    wait_until(lambda: bool(shop.rows(rows)), 30, "a settlement")
    return str(shop.rows(rows)[0].idempotency_key)


@pytest.mark.both_databases
def test_the_customer_chooses_by_answering_and_gets_the_code_once(crediting_shop: Harness) -> None:
    shop = crediting_shop
    link = choose(shop)
    page = shop.client.get(link.replace(shop.live.shop.public_url, "")).text
    assert f"store credit of {CREDIT}, as the customer chose" in page
    decide(shop, link, "approve")
    key, olga = settlement(shop), shop.log_in(OLGA)
    shown = olga.get(PATH).text
    assert f"{CREDIT}</strong> in 1 payment (store credit)" in shown
    refused = post_form(olga, f"{PATH}/{key}", PATH, settle="yes")
    assert (refused.status_code, "needs its code" in refused.text) == (422, True)
    assert len(shop.mails_to(ADA)) == 2  # no receipt before the code is there
    for _ in range(2):
        post_form(olga, f"{PATH}/{key}", PATH, settle="yes", reference="GIFT-1234")
    shop.wait_for_refund("paid")
    receipt = shop.wait_for_mails(ADA, 3)[-1]
    wait_for_quiet(shop)
    assert len(shop.mails_to(ADA)) == 3
    assert f"You have store credit of {CREDIT} instead of {MONEY} for order W2001." in receipt.text
    assert f"Store credit: {CREDIT}" in receipt.text
    assert "Your code: GIFT-1234" in receipt.text
    assert "GIFT-1234" in str(receipt.html)
    assert f"Refunded: store credit of {CREDIT}" in receipt.text  # on record
    (entry,) = shop.rows("SELECT amount_minor, credit_minor FROM ledger_entries")
    assert (entry.amount_minor, entry.credit_minor) == (1499_00, 1648_90)
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 1499_00
    (listed,) = json.loads(flask(shop, "refunds", "list", "--json").output)
    assert (listed["amount"], listed["store_credit"], listed["gateway"]) == (
        "1499.00", "1648.90", "ledger",
    )  # fmt: skip


@pytest.mark.both_databases
def test_sums_of_money_have_no_store_credit(crediting_shop: Harness) -> None:
    shop = crediting_shop
    choose(shop)
    now = shop.live.now()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with shop.live.database.transaction() as connection:
        daily_figures.count(connection, day, None)
        report = daily_figures.read(connection, day, now)
    assert [(state, str(amount)) for state, _, amount in report.amounts()] == [
        ("awaiting_approval", "0.00 USD")
    ]
    assert [str(amount) for _, amount in report.credits()] == ["1648.90 USD"]
    metrics = shop.client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}).text
    labels = '{currency="USD",status="awaiting_approval"}'
    assert f"mailagent_refunds_amount{labels} 0.0" in metrics
    assert f"mailagent_refunds_store_credit{labels} 1648.9" in metrics
    exported = flask(shop, "refunds", "settlements", "list", "--json").output
    assert exported.strip() == "[]"


def test_they_may_change_their_mind_while_it_waits(crediting_shop: Harness) -> None:
    shop = crediting_shop
    link = choose(shop)
    told = shop.mails_to(ADA)[-1]
    shop.write("I would rather have my money back.", in_reply_to=told.message_id)
    answer = shop.wait_for_mails(ADA, 3)[-1]
    assert "You have chosen" not in answer.text
    decide(shop, link, "approve")
    shop.wait_for_refund("paid")
    assert f"We have refunded {MONEY}" in shop.wait_for_mails(ADA, 4)[-1].text
    (entry,) = shop.rows("SELECT credit_minor FROM ledger_entries")
    assert entry.credit_minor is None


def test_a_file_of_settlements_tells_what_to_give(crediting_shop: Harness) -> None:
    shop = crediting_shop
    decide(shop, choose(shop), "approve")
    key = settlement(shop)
    (listed,) = json.loads(flask(shop, "refunds", "settlements", "list", "--json").output)
    assert (listed["method"], listed["amount"]) == ("store_credit", "1648.90")
    failed = flask(shop, "refunds", "settlements", "settle", key)
    assert (failed.exit_code, "needs its code" in failed.output) == (1, True)
    exported = flask(shop, "refunds", "settlements", "export").output
    assert "store_credit,1648.90,USD" in exported
    done = flask(shop, "refunds", "settlements", "settle", key, "--reference", "GIFT-9")
    assert done.exit_code == 0
    assert "Your code: GIFT-9" in shop.wait_for_mails(ADA, 3)[-1].text
