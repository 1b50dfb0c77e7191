"""`flask orders check-source`: somebody's order server, checked against the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from mailagent.demo.fakes.http_server import Answer, Request
from tests.cast import ADA, GRACE, order, order_record
from tests.cli.commands import flask
from tests.databases import ROOT
from tests.harness import Harness, open_shop, wait_until
from tests.order_server import TOKEN, OrderServer, source_settings
from tests.ports import choose_port

# The command reads no database.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def server() -> Iterator[OrderServer]:
    played = OrderServer()
    played.start()
    yield played
    played.stop()


@pytest.fixture
def source_shop(tmp_path: Path, database_url: str, server: OrderServer) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, source_settings(server)) as opened:
        yield opened


def check(shop: Harness, order_id: str = "W1001") -> tuple[int, str]:
    result = flask(shop, "orders", "check-source", "--email", ADA, "--order", order_id)
    return result.exit_code, result.output


def test_a_server_that_keeps_the_contract_passes(source_shop: Harness, server: OrderServer) -> None:
    server.page_size = 2
    placed = order_record()["placed_at"]
    more = [order(f"N{number}", placed_at=placed) for number in range(5)]
    server.stock(order(), *more, order("G1", customer={"email": GRACE}))
    code, output = check(source_shop)
    assert "FAILED" not in output
    assert code == 0
    assert f"ok: GET /orders?email={ADA} ends" in output


@pytest.mark.parametrize(("asked", "own"), [("W1001", "#W1001"), ("#w1001", "W1001")])
def test_an_order_is_found_under_the_spellings_that_a_mail_may_use(
    source_shop: Harness, server: OrderServer, asked: str, own: str
) -> None:
    server.stock(order(own))
    code, output = check(source_shop, asked)
    assert "FAILED" not in output
    assert code == 0
    assert f"ok: GET /orders/{own} is as in the list" in output


def test_what_was_not_checked_is_said(source_shop: Harness, server: OrderServer) -> None:
    result = flask(source_shop, "orders", "check-source")
    assert result.exit_code == 0
    assert "not checked: give --email ADDRESS to check more" in result.output
    assert not any(request.method == "POST" for request in server.requests)


Lie = Callable[[Request], Answer | None]


def listed(*records: dict[str, Any], following: object = None) -> Answer:
    return Answer(200, {"orders": list(records), "next": following})


def of_ada(request: Request) -> bool:
    return f"email={ADA.split('@')[0]}" in request.query


def listing(*records: dict[str, Any], following: object = None) -> Lie:
    return lambda request: listed(*records, following=following) if of_ada(request) else None


def page_of_new_orders(request: Request) -> Answer | None:
    """Answer each request for a page with an order and a cursor that were not given before."""
    number = uuid4().hex
    return listed(order_record(number), following=number) if of_ada(request) else None


OLD = order_record("W0", placed_at="2020-01-01T00:00:00Z", delivered_at=None, status="shipped")


@pytest.mark.parametrize(
    ("lie", "failure"),
    [
        (
            lambda _request: Answer(200, order_record()),
            "a request with a wrong token: was answered",
        ),
        (
            lambda request: Answer(401) if request.path == "/orders" else None,
            "the order server refuses us (401): check our token",
        ),
        (
            lambda request: Answer(500) if "checks" in request.path else None,
            "answered 500; answer 404 for an unknown number",
        ),
        (
            listing(order_record(customer={"email": GRACE})),
            "gave orders of other customers (W1001)",
        ),
        (listing(OLD, order_record()), "is not sorted; give the newest order"),
        (listing(order_record(), order_record()), "gives an order twice"),
        (listing(order_record(), following="again"), 'page 2: "next" was given before'),
        (
            listing(following="again"),
            'page 1: "next" was given before, or stands on a page without',
        ),
        (page_of_new_orders, '"next" is given on 20 pages; give null on the last page, or check'),
        (
            lambda request: listed(following="again") if "nobody" in request.query else None,
            'gave more; answer {"orders": [], "next": null} for an unknown customer',
        ),
        (listing(order_record(surprise=1)), "unknown key 'surprise'"),
        (listing(), "is not in GET /orders?email="),
        (listing(order_record(status="shipped")), "differs from the same order in"),
        (
            lambda request: Answer(404) if request.path == "/orders/W1001" else None,
            "GET /orders/W1001: gave no order; answer 200 with it",
        ),
        (
            lambda request: (
                Answer(200, order_record("W7")) if request.path == "/orders/W1001" else None
            ),
            "GET /orders/W1001: gave order W7; give the order of this number",
        ),
        (
            lambda request: (
                Answer(200, order_record("#W1001")) if request.path == "/orders/W1001" else None
            ),
            "GET /orders/#W1001: gave no order; answer 200 with it",
        ),
    ],
)
def test_each_breach_is_told_with_what_to_do(
    source_shop: Harness, server: OrderServer, lie: Lie, failure: str
) -> None:
    server.stock(order())
    server.always = lie
    code, output = check(source_shop)
    assert code == 1
    assert failure in output


def test_flask_check_asks_the_source(source_shop: Harness, server: OrderServer) -> None:
    assert "ORDER_SOURCE_URL" not in flask(source_shop, "check").output
    server.always = lambda _request: Answer(401)
    output = flask(source_shop, "check").output
    assert "problem: ORDER_SOURCE_URL: the order server refuses us (401)" in output


def test_imported_orders_have_no_source_to_check(shop: Harness) -> None:
    result = flask(shop, "orders", "check-source")
    assert result.exit_code == 1
    assert "there is no source to check" in result.output


@contextmanager
def example_server(folder: Path, orders: str) -> Iterator[str]:
    """Run the server of the documents with this orders file."""
    file, port = folder / "orders.jsonl", choose_port()
    file.write_text(orders, "utf-8")
    command = [sys.executable, str(ROOT / "docs" / "order_server.py"), str(port), str(file)]
    environ = {"PATH": os.environ["PATH"], "ORDER_SOURCE_TOKEN": TOKEN}
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{url}/orders").status_code == 401
        except httpx2.TransportError:
            return False

    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(answers, 30, "the example server")
            yield url
        finally:
            process.terminate()


RECORDS = [order_record(), order_record("N1", placed_at="2026-01-01T00:00:00Z")]


@pytest.mark.parametrize(
    "orders",
    [
        "".join(json.dumps(each) + "\n" for each in RECORDS),
        "".join(json.dumps(each, indent=2) + "\n" for each in RECORDS),
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2) + "\n",
    ],
    ids=["lines", "over lines", "array", "array over lines"],
)
def test_the_example_server_of_the_documents_passes(
    tmp_path: Path, database_url: str, orders: str
) -> None:
    with example_server(tmp_path, orders) as url:
        settings = {"ORDER_SOURCE": "http", "ORDER_SOURCE_URL": url, "ORDER_SOURCE_TOKEN": TOKEN}
        with open_shop(tmp_path, database_url, settings) as shop:
            code, output = check(shop)
        cancel = f"{url}/orders/W1001/cancel"
        assert httpx2.post(cancel).status_code == 401
        allowed = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "1"}
        assert httpx2.post(cancel, headers=allowed, json={"items": None}).status_code == 409
        assert httpx2.get(f"{url}/orders/N1", headers=allowed).status_code == 200
    assert "FAILED" not in output
    assert code == 0
