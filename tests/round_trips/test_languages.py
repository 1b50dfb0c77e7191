"""In whose language? A customer's own, from the question for the code to the receipt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mailagent.demo.fakes.http_server import Answer
from tests.cast import DESK_WISH, JUERGEN, MONA, OLGA, big_order, order
from tests.harness import Harness, code_in, open_shop, post_form, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.provider_faults import limited

OWN_SIGNATURE = "Ihr Team vom Laden an der Ecke\n{{ marker_line(support_address) }}"


def juergens_order(price: str) -> dict[str, Any]:
    return {
        "customer": {"email": JUERGEN, "name": "Jürgen Beispiel"},
        "currency": "EUR",
        "items": [{"item_id": "K1", "name": "Wasserkocher", "quantity": 1, "unit_price": price}],
        "payments": [{"payment_id": "pay_1", "method": "gift_card", "amount": price}],
    }


def write_as_juergen(shop: Harness, text: str, **changes: object) -> None:
    shop.write(text, from_address=JUERGEN, from_name="Jürgen Beispiel", **changes)


def test_a_german_customer_is_asked_for_the_code_and_gets_the_receipt_in_german(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    own = tmp_path / "mails"
    (own / "de").mkdir(parents=True)
    (own / "de" / "_signature.txt").write_text(OWN_SIGNATURE, "utf-8")
    database = tmp_path / "test.db"
    database.write_bytes(migrated_sqlite.read_bytes())
    settings = {"MAIL_TEMPLATES": str(own)}
    with (
        open_shop(tmp_path, f"sqlite:///{database}", settings) as opened,
        running(opened) as shop,
    ):
        shop.stock(order(**juergens_order("49.99")))
        write_as_juergen(
            shop, "Mein Wasserkocher aus W1001 ist kaputt. Bitte das Geld zurück.", aligned=False
        )
        (asked,) = shop.wait_for_mails(JUERGEN)
        assert "antworten Sie auf diese E-Mail mit dem Code" in asked.text
        assert "Please" not in asked.text
        # So short an answer tells no language: the one that is known stays.
        write_as_juergen(shop, f"Ok: {code_in(asked)}", aligned=False, to=asked.reply_to)
        shop.wait_for_refund("paid")
        mails = shop.wait_for_mails(JUERGEN, 3)
        receipt = next(mail for mail in mails if "Wir haben Ihnen" in mail.text)
        assert "49,99\xa0€ für die Bestellung W1001 erstattet" in receipt.text
        assert "- Geschenkkarte: 49,99\xa0€" in receipt.text
        assert "Ihr Team vom Laden an der Ecke" in receipt.text
        assert '<html lang="de"' in (receipt.html or "")
        assert shop.rows("SELECT language FROM conversations") == [("de",)]


def test_the_manager_reads_english_and_the_customer_the_shops_own_language(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    database = tmp_path / "test.db"
    database.write_bytes(migrated_sqlite.read_bytes())
    with (
        open_shop(tmp_path, f"sqlite:///{database}", {"DEFAULT_LANGUAGE": "fr_CA"}) as opened,
        running(opened) as shop,
    ):
        shop.stock(order("W2001", **juergens_order("1499.00")))
        write_as_juergen(shop, "W2001 kaputt, refund?")  # of two languages: neither is taken
        (asked,) = shop.wait_for_mails(MONA)
        assert "Please decide" in asked.text
        assert "€1,499.00" in asked.text
        decide(shop, link_in(asked.text), "reject")
        told = shop.wait_for_mails(JUERGEN, 2)[-1]
        assert "1\xa0499,00\xa0€" in told.text
        assert "ne l’a pas acceptée" in told.text
        assert shop.rows("SELECT language FROM conversations") == [(None,)]


# --- mailed links ---------------------------------------------------------------------------------


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
    shop.write(DESK_WISH)


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
