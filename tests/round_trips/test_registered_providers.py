"""A payment gateway, a mail provider and an order source from outside the package work in the whole app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailagent.adapters import gateways, mail_providers, order_sources
from mailagent.domain.mail.delivery import Blame, Refused
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.payment import NotDone
from mailagent.domain.refunds.payment import Refused as RefundRefused
from mailagent.settings import SettingsProblem
from tests.adapters.toy_providers import ToyGateway, ToyMail, ToyOrders
from tests.cast import ADA, KETTLE_WISH, OLGA, order
from tests.harness import Harness, open_shop, running, wait_until

KETTLE = {"payment_id": "toy_1", "method": "card", "amount": "49.99"}


@pytest.fixture
def gateway() -> Iterator[ToyGateway]:
    toy = ToyGateway()
    gateways.register(toy)
    yield toy
    del gateways._providers[toy.name]


@pytest.fixture
def provider() -> Iterator[ToyMail]:
    toy = ToyMail()
    mail_providers.register(toy)
    yield toy
    del mail_providers._providers[toy.name]


@pytest.fixture
def toy_shop(
    tmp_path: Path, database_url: str, gateway: ToyGateway, provider: ToyMail
) -> Iterator[Harness]:
    settings = {
        "PAYMENT_GATEWAY": gateway.name,
        "MAIL_PROVIDER": provider.name,
        "OPS_EMAILS": OLGA,
    }
    with open_shop(tmp_path, database_url, settings) as opened, running(opened) as busy:
        busy.stock(order(payments=[KETTLE]))
        yield busy


def post(shop: Harness, path: str, said: dict[str, Any], **headers: str) -> int:
    signed = {"Toy-Signature": "signed"}
    return shop.client.post(path, data=json.dumps(said), headers=signed | headers).status_code


def notices(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT subject FROM outbound_mails WHERE purpose = 'notice'")
    return [row.subject for row in rows]


def breakers(shop: Harness) -> list[str]:
    return [row.provider for row in shop.rows("SELECT provider FROM breakers")]


def test_mail_comes_in_money_goes_out_and_the_receipt_is_sent(
    toy_shop: Harness, gateway: ToyGateway, provider: ToyMail
) -> None:
    mail = {"id": "1@toy", "from": ADA, "subject": "Broken", "text": "W1001 is broken, refund it."}
    assert post(toy_shop, "/webhooks/toymail/inbound", mail) == 200
    wait_until(lambda: len(provider.sent) == 2, 30, "an answer and a receipt")
    (paid,) = gateway.paid.values()
    assert (paid.payment_id, paid.amount.minor) == ("toy_1", 4999)
    assert {each.to_address for each in provider.sent} == {ADA}
    (refund,) = toy_shop.refunds()
    assert refund.status.value == "paid"
    delivered = provider.sent[0].outbound_id
    assert post(toy_shop, "/webhooks/toymail/events", {"mail": delivered}) == 200
    assert toy_shop.rows("SELECT outbound_id FROM delivery_events") == [(delivered,)]


def test_its_webhooks_take_only_what_it_signed(toy_shop: Harness) -> None:
    mail = {"id": "1@toy", "from": ADA, "subject": "x", "text": "y"}
    path = "/webhooks/toymail/inbound"
    assert post(toy_shop, path, mail, **{"Toy-Signature": "forged"}) == 503
    assert post(toy_shop, "/webhooks/sendgrid/inbound", mail) == 503
    assert toy_shop.rows("SELECT 1 FROM inbound_mails") == []
    assert post(toy_shop, "/webhooks/toy", {"id": "e1"}, **{"Toy-Secret": "open sesame"}) == 200
    assert post(toy_shop, "/webhooks/toy", {"id": "e2"}, **{"Toy-Secret": "guessed"}) == 400
    assert toy_shop.rows("SELECT gateway, event_id FROM gateway_events") == [("toy", "e1")]


@pytest.mark.parametrize("name", ["PAYMENT_GATEWAY", "MAIL_PROVIDER", "ORDER_SOURCE"])
def test_a_name_that_nothing_is_registered_under_is_a_problem_at_start(
    name: str, tmp_path: Path, database_url: str
) -> None:
    with (
        pytest.raises(SettingsProblem, match=f"{name}: 'toy' is not known"),
        open_shop(tmp_path, database_url, {name: "toy"}),
    ):
        pass


def test_a_gateway_that_fails_has_a_breaker_and_an_incident_of_its_own(
    toy_shop: Harness, gateway: ToyGateway
) -> None:
    gateway.fault = NotDone("401 wrong key", 600, operator=True)
    mail = {"id": "1@toy", "from": ADA, "subject": "Broken", "text": "W1001 is broken, refund it."}
    assert post(toy_shop, "/webhooks/toymail/inbound", mail) == 200
    title = "Toy Bank refuses our key: no refund is paid"
    wait_until(lambda: title in notices(toy_shop), 30, "the notice to operators")
    mail_to_operators = toy_shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'notice'")
    assert "order W1001, $49.99, a…@example.com" in mail_to_operators[0].text
    assert breakers(toy_shop) == ["toy"]
    page = toy_shop.log_in(OLGA).get("/ops").text
    assert title in page
    assert "TOY_KEY" in page
    assert "Stripe" not in page


@pytest.mark.parametrize(
    ("code", "told"), [("toy_box_empty", "The toy box is empty"), ("declined", None)]
)
def test_the_console_says_what_its_own_codes_mean(
    toy_shop: Harness, gateway: ToyGateway, code: str, told: str | None
) -> None:
    gateway.fault = RefundRefused(code)
    mail = {"id": "1@toy", "from": ADA, "subject": "Broken", "text": "W1001 is broken, refund it."}
    assert post(toy_shop, "/webhooks/toymail/inbound", mail) == 200
    refund = toy_shop.wait_for_refund("failed")
    page = toy_shop.log_in(OLGA).get(f"/ops/refunds/{refund.refund_id}").text
    assert code in page
    assert (f"(<code>{code}</code>)" in page, f"{told} (" in page) == ((told is not None,) * 2)


def test_a_mail_provider_that_fails_has_a_breaker_and_an_incident_of_its_own(
    toy_shop: Harness, provider: ToyMail
) -> None:
    provider.fault = Refused("401 wrong key", Blame.ACCOUNT)
    mail = {"id": "1@toy", "from": ADA, "subject": "Broken", "text": "W1001 is broken, refund it."}
    assert post(toy_shop, "/webhooks/toymail/inbound", mail) == 200
    wait_until(lambda: "Toy Mail has refused mail of ours" in notices(toy_shop), 30, "the notice")
    assert breakers(toy_shop) == ["toymail"]
    page = toy_shop.log_in(OLGA).get("/ops").text
    assert "Toy Mail refuses us: no mail goes out" in page
    assert "TOY_MAIL_KEY" in page
    assert "SendGrid" not in page


def test_the_checks_name_its_keys(
    tmp_path: Path, database_url: str, gateway: ToyGateway, provider: ToyMail
) -> None:
    settings = {"PAYMENT_GATEWAY": gateway.name, "MAIL_PROVIDER": provider.name}
    provider.has_key = False
    with open_shop(tmp_path, database_url, settings) as shop:
        checked = shop.app.test_cli_runner().invoke(args=["check"])
    assert "TOY_MAIL_KEY is not set: no mail can be sent" in checked.output
    assert "SENDGRID_API_KEY" not in checked.output


@pytest.fixture
def toy_orders() -> Iterator[ToyOrders]:
    toy = ToyOrders()
    order_sources.register(toy)
    yield toy
    del order_sources._providers[toy.name]


def test_an_order_source_is_asked_and_has_a_breaker_and_an_incident_of_its_own(
    tmp_path: Path, database_url: str, toy_orders: ToyOrders
) -> None:
    toy_orders.orders["W1001"] = order()
    settings = {
        "ORDER_SOURCE": toy_orders.name,
        "ORDER_SOURCE_URL": "http://toys.shop.test",
        "ORDER_SOURCE_TOKEN": "toy",
    }
    with open_shop(tmp_path, database_url, settings) as opened, running(opened) as shop:
        shop.write(KETTLE_WISH)
        shop.wait_for_refund("paid")
        wait_until(shop.at_rest, 30, "the answer")
        toy_orders.fault = SourceProblem("the toy box is locked", operator=True)
        shop.write("Where is W1001?")
        title = "Toy Orders refuses us, or breaks its contract: no refund is decided or paid"
        wait_until(lambda: title in notices(shop), 30, "the notice to operators")
        assert breakers(shop) == ["toyorders"]
        page = shop.log_in(OLGA).get("/ops").text
    assert title in page
    assert "TOY_ORDERS_KEY" in page
