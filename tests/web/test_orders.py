"""`PUT /api/orders/<id>`: one order from the shop's own systems, once however often it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from mailagent.store.refunds import orders
from mailagent.web.api import LARGEST_ORDER_BYTES
from tests.cast import order, order_record
from tests.harness import Harness, open_shop

TOKEN = "the-token-of-the-shop-s-own-systems"
OLDER_TOKEN = "the-token-that-they-had-before-that"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    settings = {"ORDERS_API_TOKEN": f"{TOKEN},{OLDER_TOKEN}"}
    with open_shop(tmp_path, database_url, settings) as harness:
        yield harness


def put(
    shop: Harness,
    record: Any,
    order_id: str = "W1001",
    headers: dict[str, str] | None = None,
    token: str | None = TOKEN,
) -> TestResponse:
    body = record if isinstance(record, bytes) else json.dumps(record)
    authorised = {} if token is None else {"Authorization": f"Bearer {token}"}
    return shop.client.put(
        f"/api/orders/{order_id}",
        data=body,
        content_type="application/json",
        headers=authorised | (headers or {}),
    )


def stored(shop: Harness, order_id: str = "W1001") -> Any:
    with shop.live.database.snapshot() as connection:
        return orders.find(connection, order_id)


def test_an_order_is_created_then_unchanged_then_changed(shop: Harness) -> None:
    first = put(shop, order_record())
    assert (first.status_code, first.headers["ETag"]) == (201, '"1"')
    assert first.get_json() == {"order_id": "W1001", "version": 1, "saved": "created"}
    again = put(shop, order_record())
    assert (again.status_code, again.get_json()["saved"]) == (200, "unchanged")
    changed = put(shop, order_record(customer={"email": "ada@example.com", "name": "Ada B."}))
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert stored(shop).customer_name == "Ada B."


@pytest.mark.parametrize("order_id", ["%231001", "2026/11/1001", "Bestellung-%C3%A4"])
def test_ids_are_what_the_shop_calls_its_orders(shop: Harness, order_id: str) -> None:
    record = order_record()
    del record["order_id"]
    answer = put(shop, record, order_id, token=OLDER_TOKEN)
    assert answer.status_code == 201
    assert stored(shop, answer.get_json()["order_id"]) is not None


@pytest.mark.parametrize(
    "token", [None, "", "x", TOKEN + "x", TOKEN[:-1], "ä" * 40, f"{TOKEN},{OLDER_TOKEN}"]
)
def test_without_the_token_nothing_is_stored(shop: Harness, token: str | None) -> None:
    answer = put(shop, order_record(), token=token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert stored(shop) is None


def test_without_a_token_of_the_shop_there_is_no_such_route(
    tmp_path: Path, database_url: str
) -> None:
    with open_shop(tmp_path, database_url) as shop:
        assert put(shop, order_record()).status_code == 404


def test_all_that_an_order_may_have_is_stored_and_the_same_again_changes_nothing(
    shop: Harness,
) -> None:
    whole = order_record(
        items=[
            {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}
            | {"discount": "5.00", "category": "kitchen", "final_sale": True}
        ],
        payments=[
            {"payment_id": "p", "method": "card", "amount": "40.00", "refunded": "10.00"},
            {"payment_id": "g", "method": "gift_card", "amount": "20.00"},
        ],
        discount="3.00",
        shipping="4.00",
        tax="4.00",
    )
    assert put(shop, whole).status_code == 201
    assert stored(shop) == order(**whole)
    assert put(shop, whole).get_json()["saved"] == "unchanged"
    assert shop.rows("SELECT payment_id, amount_minor FROM external_refunds") == [("p", 10_00)]
    whole["payments"][0]["refunded"] = "40.00"
    assert put(shop, whole).get_json() == {"order_id": "W1001", "version": 2, "saved": "changed"}
    assert shop.rows("SELECT payment_id, amount_minor FROM external_refunds") == [("p", 40_00)]


def test_the_version_is_told_of_the_order_that_was_stored(shop: Harness) -> None:
    record = order_record()
    del record["order_id"]
    for status, saved in ((201, "created"), (200, "unchanged")):
        answer = put(shop, record, "W1001%20")
        assert answer.get_json() == {"order_id": "W1001", "version": 1, "saved": saved}
        assert (answer.status_code, answer.headers["ETag"]) == (status, '"1"')


# --- versions ---------------------------------------------------------------------------------


def test_an_older_state_does_not_overwrite_a_newer_one(shop: Harness) -> None:
    first = put(shop, order_record())
    put(shop, order_record(status="cancelled"), headers={"If-Match": first.headers["ETag"]})
    late = put(shop, order_record(), headers={"If-Match": first.headers["ETag"]})
    assert late.status_code == 412
    assert late.get_json() == {"error": "order W1001 has version 2, not version 1"}
    assert stored(shop).status == "cancelled"


def test_only_create_is_possible(shop: Harness) -> None:
    create = {"If-None-Match": "*"}
    assert put(shop, order_record(), headers=create).status_code == 201
    again = put(shop, order_record(), headers=create)
    assert again.status_code == 412
    assert again.get_json() == {"error": "order W1001 exists already, in version 1"}


def test_a_change_whose_answer_was_lost_may_be_sent_again(shop: Harness) -> None:
    first = {"If-Match": put(shop, order_record()).headers["ETag"]}
    changed = order_record(status="cancelled")
    assert put(shop, changed, headers=first).get_json()["saved"] == "changed"
    again = put(shop, changed, headers=first)
    assert (again.status_code, again.headers["ETag"]) == (200, '"2"')
    assert again.get_json() == {"order_id": "W1001", "version": 2, "saved": "unchanged"}


def test_a_version_of_an_order_that_is_not_there_creates_nothing(shop: Harness) -> None:
    answer = put(shop, order_record(), headers={"If-Match": '"3"'})
    assert (answer.status_code, stored(shop)) == (412, None)
    assert "does not exist" in answer.get_json()["error"]


@pytest.mark.parametrize("tag", ["3", 'W/"3"', '"x"', '"1", "2"', "*", '"99999999999999999999"'])
def test_a_tag_that_is_none_of_ours_is_refused(shop: Harness, tag: str) -> None:
    assert put(shop, order_record(), headers={"If-Match": tag}).status_code == 400


def test_ten_at_once_create_one_order(shop: Harness) -> None:
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda _: put(shop, order_record()).status_code, range(10)))
    assert sorted(answers) == [200] * 9 + [201]
    assert stored(shop) == order()


# --- nonsense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"currency": "dollars"}, "currency"),
        ({"currency": "ZZZ"}, "currency"),
        ({"items": []}, "items"),
        ({"colour": "red"}, "'colour'"),
        ({"order_id": "W1002"}, "'W1002' is not the 'W1001' of the address"),
        ({"order_id": 1001}, "1001"),
        ({"placed_at": "2026-11-01"}, "placed_at"),
        ({"customer": {"email": "nobody"}}, "customer.email"),
        ({"discount": "50.00"}, "discount: is above the 49.99 USD"),
        ({"shipping": "5.001"}, "shipping: '5.001' has more decimals"),
    ],
)
def test_nonsense_is_refused_by_field(shop: Harness, change: dict[str, Any], words: str) -> None:
    answer = put(shop, order_record() | change)
    assert answer.status_code == 422
    assert words in answer.get_json()["error"]
    assert stored(shop) is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe{}", b'{"a": 1, "a": 2', b"[" * 100_000, b"NaN,"]
)
def test_what_is_not_json_is_refused(shop: Harness, body: bytes) -> None:
    answer = put(shop, body)
    assert answer.status_code == 400
    assert "not a JSON object" in answer.get_json()["error"]
    for no_order in (b"[]", b"17", b"null", b'"x"', b'{"a": 1, "a": 2}'):
        assert put(shop, no_order).status_code == 422


def test_an_order_too_large_is_refused(shop: Harness) -> None:
    answer = put(shop, b" " * (LARGEST_ORDER_BYTES + 1))
    assert answer.status_code == 413
    assert str(LARGEST_ORDER_BYTES) in answer.get_json()["error"]
