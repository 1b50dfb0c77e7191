"""A second click on the same button changes nothing, writes no entry of the audit log, and says so."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from mailagent.store.ids import new_id
from tests.cast import OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.handed_over import thread
from tests.harness import Harness, post_form
from tests.web.console.drafts import field
from tests.web.console.failed_runs import fail_run, lose

pytestmark = ONE_DATABASE

UNCHANGED = "Your click changed nothing."

# By the end of an address of a conversation: what the form says. An address with a slash stands alone.
FORMS: dict[str, dict[str, str]] = {
    "close": {},
    "snooze": {"for": "4h"},
    "assign": {"owner": OLGA},
    "tags": {"tag": "vip"},
    "notes": {"note": "Call her."},
    "take-over": {"owner": ""},
    "answer": {"text": "It comes today.", "once": new_id("once")},
    "refund/W1001": {
        "once": new_id("once"),
        "reason": "damaged",
        "units:K1": "1",
        "amount": "$49.99",
    },
    "/ops/saved-replies": {"name": "Late", "text": "It is late."},
}


def click(client: FlaskClient, path: str, form: dict[str, str]) -> str:
    """Send a form, and return the page that it leads to."""
    answer = post_form(client, path, page="/ops", **form)
    assert answer.status_code == 303
    return client.get(answer.location).text


def entries(shop: Harness) -> list[str]:
    return [row.action for row in shop.rows("SELECT action FROM audit ORDER BY audit_id")]


def click_twice(shop: Harness, client: FlaskClient, path: str, form: dict[str, str]) -> None:
    before = entries(shop)
    assert UNCHANGED not in click(client, path, form)
    done, mails = entries(shop), shop.rows("SELECT outbound_id FROM outbound_mails")
    assert done != before
    assert UNCHANGED in click(client, path, form)
    assert entries(shop) == done
    assert shop.rows("SELECT outbound_id FROM outbound_mails") == mails
    assert UNCHANGED not in client.get("/ops").text


@pytest.mark.parametrize("act", FORMS)
def test_a_second_click_changes_nothing_and_says_so(shop: Harness, act: str) -> None:
    shop.stock(order())
    shop.write("My kettle of order W1001 is broken.")
    client, here = shop.log_in(TESS), f"/ops/conversations/{thread(shop).conversation_id}"
    form = {"seen": field(client.get(here).text, "seen"), **FORMS[act]}
    click_twice(shop, client, act if act.startswith("/") else f"{here}/{act}", form)


def test_the_same_is_dismissed_once(shop: Harness) -> None:
    client = shop.log_in(OLGA)
    for subject in (fail_run(shop), lose(shop, "receipt")):
        click_twice(shop, client, "/ops/dismiss", {"subject": subject})
        click_twice(shop, client, "/ops/dismiss", {"subject": subject, "act": "back"})


def test_a_snooze_is_made_longer_by_choosing_another_time(shop: Harness) -> None:
    shop.write("Where is it?")
    client, here = shop.log_in(TESS), f"/ops/conversations/{thread(shop).conversation_id}"
    for choice in ("4h", "1d"):
        click(
            client, f"{here}/snooze", {"for": choice, "seen": field(client.get(here).text, "seen")}
        )
    assert entries(shop).count("conversation snoozed") == 2
