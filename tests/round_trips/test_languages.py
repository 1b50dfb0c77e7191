"""In whose language? A customer's own, from the question for the code to the receipt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cast import JUERGEN, MONA, order
from tests.harness import Harness, code_in, open_shop, running
from tests.round_trips.approvals import decide, link_in

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
