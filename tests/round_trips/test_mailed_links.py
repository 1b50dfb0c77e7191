"""Links by which their readers decide or log in are not in clear in the database once their mail went out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mailagent.demo.fakes.http_server import Answer
from tests.cast import MONA, OLGA, big_order
from tests.harness import Harness, post_form, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.provider_faults import limited

LINK = re.compile(r"/(?:approvals|ops/login)/(?!…)\S+")


def too_large(_accept: Callable[[], Answer]) -> Answer:
    return Answer(413, {"errors": [{"message": "too large", "field": None, "help": None}]})


def stored(shop: Harness, address: str) -> list[Any]:
    return shop.rows("SELECT * FROM outbound_mails WHERE to_address = :address", address=address)


def links(row: Any) -> list[str]:
    """Return the links in all columns of a mail of ours."""
    return LINK.findall(" ".join(map(str, row)))


def is_over(shop: Harness, address: str, status: str) -> Callable[[], bool]:
    return lambda: [row.status for row in stored(shop, address)] == [status]


def ask_a_manager(shop: Harness) -> None:
    shop.stock(big_order())
    shop.write("The standing desk of order W2001 is damaged, please refund it.")


def test_a_request_that_went_out_holds_no_link_and_the_mailed_one_decides(
    busy_shop: Harness,
) -> None:
    ask_a_manager(busy_shop)
    (request,) = busy_shop.wait_for_mails(MONA)
    wait_until(is_over(busy_shop, MONA, "sent"), 20, "the request to be sent")
    (row,) = stored(busy_shop, MONA)
    assert links(row) == []
    assert "W2001" in row.text
    decide(busy_shop, link_in(request.text), "approve")
    busy_shop.wait_for_refund("paid")


def test_a_login_that_went_out_holds_no_link(busy_shop: Harness) -> None:
    post_form(busy_shop.client, "/ops/login", email=OLGA)
    (mail,) = busy_shop.wait_for_mails(OLGA)
    assert LINK.search(mail.text)
    wait_until(is_over(busy_shop, OLGA, "sent"), 20, "the link to be sent")
    (row,) = stored(busy_shop, OLGA)
    assert links(row) == []


def test_nor_does_one_that_cannot_be_sent(busy_shop: Harness) -> None:
    busy_shop.faults.sendgrid.append(too_large)
    post_form(busy_shop.client, "/ops/login", email=OLGA)
    wait_until(is_over(busy_shop, OLGA, "failed"), 30, "the mail to fail")
    (row,) = stored(busy_shop, OLGA)
    assert links(row) == []


def test_one_that_waits_keeps_its_link_and_goes_out_with_it(busy_shop: Harness) -> None:
    busy_shop.faults.sendgrid.append(limited)
    ask_a_manager(busy_shop)
    (request,) = busy_shop.wait_for_mails(MONA, seconds=60)
    assert LINK.search(request.text)
    wait_until(is_over(busy_shop, MONA, "sent"), 20, "the request to be sent")
    (row,) = stored(busy_shop, MONA)
    assert links(row) == []
