"""The shop's checkout uses a discount: once, on one order, with the token of the orders."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.store.refunds import goodwill
from tests.cast import order
from tests.harness import Harness, open_shop

TOKEN = "a-token-of-the-shop-for-tests-only"


@pytest.fixture
def checkout(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, {"ORDERS_API_TOKEN": TOKEN}) as harness:
        yield harness


@pytest.fixture
def code(checkout: Harness) -> str:
    """A discount of ten percent that Ada was given."""
    checkout.stock(order())
    checkout.write("My kettle W1001 came late")
    (mail,) = checkout.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    now = checkout.live.now()
    given = GoodwillCode(
        code=goodwill.new_code(),
        order_id="W1001",
        conversation_id=mail.conversation_id,
        mail_id=mail.mail_id,
        percent=10,
        policy_version=None,
        issued_at=now,
        expires_at=now + timedelta(days=90),
    )
    with checkout.live.database.transaction() as connection:
        goodwill.issue(connection, given)
    return given.code


def use(
    checkout: Harness, code: str, body: Any = None, token: str = TOKEN, **more: Any
) -> TestResponse:
    sent = {"json": {"order_id": "S77"} if body is None else body} | more
    return checkout.client.post(
        f"/api/goodwill-codes/{code}/redemptions",
        headers={"Authorization": f"Bearer {token}"},
        **sent,
    )


def test_a_discount_is_used_once_and_the_same_order_may_ask_again(
    checkout: Harness, code: str
) -> None:
    first = use(checkout, code.lower().replace("-", ""))
    assert first.status_code == 201
    assert first.json == {"code": code, "percent": 10, "used_on": "S77"}
    again = use(checkout, code)
    assert (again.status_code, again.json) == (200, first.json)
    other = use(checkout, code, {"order_id": "S78"})
    assert other.status_code == 409
    assert other.json is not None
    assert "on order S77" in other.json["error"]


def test_a_discount_that_is_over_is_refused(checkout: Harness, code: str) -> None:
    late = checkout.live.now() + timedelta(days=91)
    services.bind(replace(checkout.live, now=lambda: late))
    refused = use(checkout, code)
    assert refused.status_code == 409
    assert "expired" in refused.text


def test_nonsense_uses_nothing(checkout: Harness, code: str) -> None:
    nonsense: list[tuple[int, dict[str, Any]]] = [
        (401, {"token": "another"}),
        (404, {"code": "AAAA-AAAA-AAAA"}),
        (404, {"code": "%00"}),
        (404, {"code": "x" * 500}),
        (422, {"body": {}}),
        (422, {"body": []}),
        (422, {"body": {"order_id": 7}}),
        (422, {"body": {"order_id": " "}}),
        (422, {"body": {"order_id": "a\x00b"}}),
        (422, {"body": {"order_id": "a" * 201}}),
        (400, {"data": b"{", "json": None}),
        (400, {"data": b"[" * 9_000, "json": None}),
        (400, {"data": b" " * 20_000, "json": None}),
    ]
    for status, changes in nonsense:
        assert use(checkout, **({"code": code} | changes)).status_code == status, changes
    (row,) = checkout.rows("SELECT used_at FROM goodwill_codes")
    assert row.used_at is None


def test_of_many_orders_at_once_one_gets_it(checkout: Harness, code: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda n: use(checkout, code, {"order_id": f"S{n}"}).status_code, range(8))
        )
    assert sorted(answers) == [201] + [409] * 7


def test_the_command_uses_it_once_and_says_when_and_on_what(checkout: Harness, code: str) -> None:
    run = checkout.app.test_cli_runner().invoke
    used = run(args=["goodwill", "redeem", code, "--order", "S77"])
    assert (used.exit_code, used.output) == (0, "10% off order S77: the code is used now.\n")
    assert "already, at " in run(args=["goodwill", "redeem", code, "--order", "S77"]).output
    refused = run(args=["goodwill", "redeem", code, "--order", "S78"])
    assert refused.exit_code == 1
    assert "on order S77" in refused.output
    assert run(args=["goodwill", "redeem", "nonsense", "--order", "S1"]).exit_code == 1
    listed = run(args=["goodwill", "list"]).output
    assert code in listed
    assert "S77" in listed
    assert '"used_on": "S77"' in run(args=["goodwill", "list", "--json"]).output
