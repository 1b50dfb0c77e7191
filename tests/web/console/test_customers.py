"""A customer's page: all of theirs and nothing of others', and whether mail reaches them."""

from __future__ import annotations

import re

import sqlalchemy as sa

from mailagent.store.mail import suppressions
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, MONA, OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, post_form
from tests.web.console.pages import SCRIPT, plain, read_pages

PAGE = f"/ops/customers/{ADA}"


def test_all_of_a_customer_is_on_one_page_and_nothing_of_others(shop: Harness) -> None:
    shop.stock(
        order(customer={"email": ADA, "name": f"Ada {SCRIPT}"}),
        order("W3001", customer={"email": GRACE, "name": "Grace"}),
    )
    shop.write("Where is it?", subject=f"Kettle {SCRIPT}")
    shop.write("Where is mine?", subject="Of Grace", from_address=GRACE)
    for address in (PAGE, "/ops/customers/Ada@EXAMPLE.com"):
        page = shop.log_in(TESS).get(address).text
        assert "<script>" not in page
        words = plain(page)
        for shown in (
            "Kettle &lt;script&gt;",
            "W1001",
            "$49.99",
            "Customer since",
            "with the agent",
        ):
            assert shown in words
        assert "W3001" not in words
        assert "Grace" not in words
        assert "/erase" not in page
    assert "/ops/customers/ada%40example.com/erase" in shop.log_in(OLGA).get(PAGE).text


def test_long_lists_are_read_in_pages(shop: Harness) -> None:
    shop.stock(*(order(f"W{number}") for number in range(1000, 1045)))
    shop.write("Where is it?")
    client = shop.log_in(TESS)
    seen = re.findall(r">(?:<bdi>)?(W1\d{3})<", "".join(read_pages(client, PAGE)))
    assert sorted(seen) == [f"W{number}" for number in range(1000, 1045)]
    for number in ("-1", "x", "9" * 30):
        assert client.get(f"{PAGE}?page={number}").status_code == 200


def test_mail_may_go_again_where_it_may_not(shop: Harness) -> None:
    shop.write("Where is it?")
    with shop.live.database.transaction() as connection:
        suppressions.suppress(connection, ADA, f"bounce: 550 <{ADA}> {SCRIPT}", shop.live.now())
    client = shop.log_in(TESS)
    page = client.get(PAGE).text
    assert "Nothing is sent to this address" in page
    assert "<script>" not in page
    assert "Allow mail to this address" not in shop.log_in(MONA).get(PAGE).text
    assert post_form(shop.log_in(MONA), f"{PAGE}/mail-again", PAGE).status_code == 403
    done = post_form(client, f"{PAGE}/mail-again", PAGE)
    assert (done.status_code, done.location) == (303, PAGE)
    assert "Nothing is sent" not in client.get(PAGE).text
    post_form(client, f"{PAGE}/mail-again", PAGE)
    (act,) = shop.rows(
        "SELECT actor, subject, details FROM audit WHERE action LIKE 'mail allowed%'"
    )
    assert act.actor == TESS
    assert ADA not in f"{act.subject} {act.details}"


def test_mail_in_no_conversation_is_listed(shop: Harness) -> None:
    away = raw_request(
        f"From: {ADA}\nSubject: Away {SCRIPT}\nAuto-Submitted: auto-replied\n\nI am away.\n"
    )
    assert shop.post_inbound(away).status_code == 200
    page = shop.log_in(TESS).get(PAGE).text
    assert "Away &lt;script&gt;" in page
    assert "auto reply" in page


@ONE_DATABASE
def test_what_would_be_erased_is_shown_without_reading_all_mail(shop: Harness) -> None:
    shop.write("Hello?")
    asked: list[str] = []

    def keep(_connection: object, _cursor: object, text: str, *_more: object) -> None:
        asked.append(text.lower())

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", keep)
    page = shop.log_in(OLGA).get(f"{PAGE}/erase").text
    sa.event.remove(engine, "before_cursor_execute", keep)
    assert "Mails received: 1" in page
    assert asked
    assert not [text for text in asked if "body" in text and "like" in text]


def test_what_stands_in_the_way_of_an_erasure_is_a_link_in_short_words(shop: Harness) -> None:
    shop.write("Where is it?")
    (mail,) = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    page = shop.log_in(OLGA).get(f"{PAGE}/erase").text
    assert (
        f'<a href="/ops/conversations/{mail.conversation_id}"><bdi>A mail is unanswered</bdi></a>'
        in page
    )
    assert mail.mail_id not in page
