"""Saved replies are written in the console and filled into an answer; none leaves with a placeholder."""

from __future__ import annotations

from dataclasses import replace

from flask.testing import FlaskClient

from mailagent.store.ids import new_id
from tests.cast import GRACE, MONA, OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.handed_over import thread
from tests.harness import Harness, post_form
from tests.web.console.drafts import field, press

pytestmark = ONE_DATABASE

PATH = "/ops/saved-replies"
TEXT = "Dear {{customer_name}}, your order {{order_number}} is late. {{my_name}}, {{shop_name}}"


def save(client: FlaskClient, name: str = "Late", text: str = TEXT) -> int:
    return post_form(client, PATH, name=name, text=text).status_code


def change(client: FlaskClient, path: str, name: str = "Late", text: str = TEXT) -> int:
    seen = field(client.get(path).text, "updated_at")
    return post_form(client, path, name=name, text=text, updated_at=seen).status_code


def ids(shop: Harness) -> list[str]:
    return [row.saved_reply_id for row in shop.rows("SELECT * FROM saved_replies ORDER BY name")]


def test_a_reply_is_saved_changed_and_deleted_and_each_is_on_record(shop: Harness) -> None:
    tess = shop.log_in(TESS)
    assert (save(tess), save(tess, text="x"), save(tess, name="")) == (303, 422, 422)
    (reply_id,) = ids(shop)
    assert change(tess, f"{PATH}/{reply_id}", "Very late", "Hello") == 303
    assert "Very late" in tess.get(PATH).text
    post_form(tess, f"{PATH}/{reply_id}", change="delete")
    assert ids(shop) == []
    assert tess.get(f"{PATH}/{reply_id}").status_code == 404
    rows = shop.rows("SELECT action FROM audit WHERE subject = :id ORDER BY audit_id", id=reply_id)
    assert [row.action for row in rows] == [
        "saved reply written", "saved reply written", "saved reply deleted",
    ]  # fmt: skip
    assert shop.log_in(MONA).get(PATH).status_code == 403


def test_a_colleagues_change_is_not_overwritten_unseen(shop: Harness) -> None:
    tess, olga = shop.log_in(TESS), shop.log_in(OLGA)
    save(tess)
    path = f"{PATH}/{ids(shop)[0]}"
    opened = field(olga.get(path).text, "updated_at")
    assert change(tess, path, text="We give you <10> percent.") == 303
    mine = {"name": "Late", "text": "Sorry."}
    refused = post_form(olga, path, **mine, updated_at=opened)
    assert refused.status_code == 409
    assert f"{TESS} changed it while this page was open" in refused.text
    assert "We give you &lt;10&gt; percent." in refused.text
    assert "Sorry.</textarea>" in refused.text
    again = post_form(olga, path, **mine, updated_at=field(refused.text, "updated_at"))
    assert again.status_code == 303
    assert [row.text for row in shop.rows("SELECT text FROM saved_replies")] == ["Sorry."]


def test_an_unknown_placeholder_is_refused_with_the_text_kept(shop: Harness) -> None:
    answer = post_form(shop.log_in(TESS), PATH, name="Late", text="Dear {{first_name}} <3")
    assert answer.status_code == 422
    assert "There is no {{first_name}}. There are {{customer_name}}" in answer.text
    assert "Dear {{first_name}} &lt;3</textarea>" in answer.text
    assert ids(shop) == []


def insert(shop: Harness, client: FlaskClient, text: str = "") -> str:
    conversation_id = thread(shop).conversation_id
    fields = {"saved_reply": ids(shop)[0], "text": text, "once": new_id("once")}
    return str(press(client, conversation_id, "saved-reply", **fields).text)


def test_a_chosen_reply_stands_in_the_answer_with_the_customers_facts(shop: Harness) -> None:
    shop.stock(order(), order("W1002"))
    shop.write("Where is my order w1002?", from_name="Ada Example")
    tess = shop.log_in(TESS)
    save(tess)
    page = insert(shop, tess, text="Hello!")
    expected = "Dear Ada Example, your order W1002 is late. Tess, shop.example</textarea>"
    assert f"Hello!\n\n{expected}" in page
    assert shop.rows("SELECT 1 FROM outbound_mails") == []
    sent = {name: field(page, name) for name in ("once", "seen")}
    assert (
        press(tess, thread(shop).conversation_id, "answer", text="Hello!", **sent).status_code
        == 303
    )


def test_what_is_not_known_stays_open_and_cannot_be_sent(shop: Harness) -> None:
    shop.stock(replace(order(), customer_email=GRACE))
    shop.write("Where is my order W1001?", aligned=False, from_name="x https://evil.example")
    tess = shop.log_in(TESS)
    save(tess)
    assert "Dear {{customer_name}}, your order {{order_number}} is late." in insert(shop, tess)
    told = press(
        tess, thread(shop).conversation_id, "answer", text="About {{order_number}}",
        once=new_id("once"),
    )  # fmt: skip
    assert (told.status_code, "{{order_number}} is still in it" in told.text) == (422, True)
