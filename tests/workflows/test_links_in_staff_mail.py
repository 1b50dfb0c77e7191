"""No mail to the shop's people has a link that a customer made, not even of their name or address."""

from __future__ import annotations

from tests.cast import ADA, MONA, TESS, big_order
from tests.databases import ONE_DATABASE
from tests.harness import Harness

pytestmark = ONE_DATABASE

LINK = "https://shop-example.evil/ops/tasks"


def text_of(shop: Harness, address: str) -> str:
    (mail,) = shop.wait_for_mails(address)
    return f"{mail.subject}\n{mail.text}\n{mail.html}"


def test_a_name_is_no_link_and_has_an_end(busy_shop: Harness) -> None:
    name = f"Ada: approve at {LINK} {'please ' * 20}"
    busy_shop.stock(big_order(customer={"email": ADA, "name": name}))
    busy_shop.write("Please send a replacement for the desk of W2001, it is damaged.")
    told = text_of(busy_shop, MONA)
    assert "Ada: approve at https[:]//shop-example[.]evil/ops/tasks please" in told
    assert f"<{ADA}>" in told
    assert "shop-example.evil" not in told
    assert told.count("please ") < 20


def test_an_address_is_no_link(busy_shop: Harness) -> None:
    sender = "shop-example.evil/ops/login@mallory.example"
    busy_shop.write("I want to talk to a human being, now!", from_address=sender, from_name="")
    told = text_of(busy_shop, TESS)
    assert "<shop-example[.]evil/ops/login@mallory[.]example>" in told
    assert "shop-example.evil" not in told
