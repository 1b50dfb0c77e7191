"""Stored code: a customer writes some wherever they may write, and every page and mail of the shop shows it
as what it is, words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, MALLORY, MAX, MONA, OLGA, SUPPORT, TESS, big_order
from tests.harness import Harness, post_form, wait_until
from tests.hostile import HOSTILE, be_answered, bounce, code, write_everywhere
from tests.round_trips.approvals import approval_path, starts
from tests.web.page_source import PageSource, crawl

# What is looked at here is the same on both databases.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

# Where their words must turn up as words: otherwise the crawl has not seen the pages it should.
SEEN_BY_MANAGER = {"NAME", "ITEM", "TEXT", "FILE"}
SEEN_BY_OPERATOR = {"SUBJECT", "TEXT", "ITEM", "FILE", "NOTE", "ANSWER"}
LEAD = "alert(1)>"  # what stands before the sum in all of them


@pytest.fixture
def attacked(busy_shop: Harness) -> Harness:
    write_everywhere(busy_shop)
    return busy_shop


def fields_in(pages: dict[str, PageSource]) -> set[str]:
    text = " ".join(page.text for page in pages.values())
    return set(re.findall(r"XSS-([A-Z]+)", text))


def test_code_in_any_field_stays_words_on_every_page(attacked: Harness) -> None:
    manager, operator = attacked.client, attacked.log_in(OLGA)
    link = approval_path(attacked)
    pages = crawl(manager, [link])
    assert fields_in(pages) >= SEEN_BY_MANAGER
    typed = post_form(
        manager,
        link,
        decision="approve",
        amount=code("AMOUNT"),
        note=code("NOTE"),
        note_shared="yes",
    )
    pages["a form with a problem"] = PageSource(typed.text)
    decided = post_form(manager, link, decision="reject", note=code("NOTE"), note_shared="yes")
    pages["decided"] = PageSource(decided.text)
    attacked.wait_for_refund("rejected")
    told = "SELECT 1 FROM outbound_mails WHERE purpose = 'refund_outcome' AND status = 'sent'"
    # Until then an answer would be asked whether it still holds.
    wait_until(lambda: bool(attacked.rows(told)), 30, "the mail that tells the outcome")
    be_answered(attacked, TESS, code("ANSWER"))
    bounce(attacked)
    consoles = crawl(operator, starts(attacked))
    assert fields_in(consoles) >= SEEN_BY_OPERATOR
    seen = pages | consoles
    assert any(f"{LEAD}{{{{7*7}}}}" in page.text for page in seen.values())
    for path, page in seen.items():
        assert page.problems == [], path
        # A place of a template that is a template itself would have done the sum.
        assert f"{LEAD}49" not in page.text, path


def test_code_in_any_field_stays_words_in_every_mail(attacked: Harness) -> None:
    link = approval_path(attacked)
    post_form(attacked.client, link, decision="reject", note=code("NOTE"), note_shared="yes")
    attacked.wait_for_refund("rejected")
    be_answered(attacked, TESS, code("ANSWER"))
    attacked.wait_for_mails(HOSTILE, 4)
    mails = attacked.mails_to(MONA) + attacked.mails_to(TESS) + attacked.mails_to(HOSTILE)
    found: set[str] = set()
    for sent in mails:
        assert sent.html is not None
        source = PageSource(sent.html)
        found |= fields_in({"": source})
        ours = attacked.live.shop.public_url
        foreign = [link for link in source.links if not link.startswith((ours, "mailto:"))]
        assert foreign == [], sent.subject
        tags = set(re.findall(r"<(\w+)", sent.html))
        assert tags.isdisjoint({"xss", "img", "script", "svg", "iframe"}), sent.subject
    assert found >= {"TEXT", "NOTE", "ANSWER"}


# --- header injection -----------------------------------------------------------------------------


# What is looked at here is the same on both databases.

BREAK = f"\r\nBcc: {MALLORY}\r\nX-Injected: yes\r\n\r\nWritten by somebody else"
# RFC 2047, section 5: in a name, a colon has to be encoded. A From field with a bare one proves nothing.
ENCODED = f"=?utf-8?q?Desk=0D=0ABcc=3A_{MALLORY.replace('@', '=40')}=0D=0AX-Injected=3A_yes?="
PEOPLE = {ADA, GRACE, MONA, MAX, TESS, OLGA}
HEADERS = {"Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress", "In-Reply-To", "References"}

LETTER = f"""\
From: {ENCODED} <{ADA}>
To: {SUPPORT}
Subject: {ENCODED}
Message-ID: <a@example.com>
In-Reply-To: <b@example.com>
 Bcc: {MALLORY}
References: <c@example.com> Bcc:{MALLORY} <{ENCODED}>
\t<d@example.com>,{MALLORY}
Reply-To: "x" <{MALLORY}>, {MALLORY}
Content-Type: text/plain

The standing desk of order W2001 is damaged, please refund it.
"""
OTHER = f"""\
From: "Grace\\\\\\"\t, {MALLORY}" <{GRACE}>
To: {SUPPORT}, {MALLORY}
Cc: {MALLORY}
Subject: =?iso-8859-1?b?SGVscA0KQmNjOiBtYWxsb3J5QGV2aWwuZXhhbXBsZQ==?=
Message-ID: <e@example.org>\r
Content-Type: text/plain

I am done with machines. Let me talk to a human being, now!
"""


def has_control(text: str) -> bool:
    return re.search(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]", text) is not None


def check(body: dict[str, Any]) -> None:
    """Look at one request for a mail: one recipient whom we know, and no header but ours."""
    (group,) = body["personalizations"]
    assert group.keys() == {"to"}
    (recipient,) = group["to"]
    assert recipient.keys() == {"email"}
    assert recipient["email"] in PEOPLE
    assert body.keys() <= {
        *("personalizations", "from", "reply_to", "subject", "content", "headers"),
        *("custom_args", "tracking_settings"),
    }
    assert body["from"] == {"email": SUPPORT, "name": body["from"]["name"]}
    assert body["headers"].keys() <= HEADERS
    for line in (body["subject"], *body["headers"].values(), body["from"]["name"]):
        assert not has_control(line), line
    for name in ("In-Reply-To", "References"):
        assert MALLORY not in body["headers"].get(name, ""), name
    assert MALLORY not in body.get("reply_to", {}).get("email", "")


def test_nothing_that_anybody_writes_becomes_a_header_or_a_recipient(busy_shop: Harness) -> None:
    busy_shop.stock(big_order(customer={"email": ADA, "name": "Ada, Bcc: " + MALLORY}))
    posted = busy_shop.post_inbound(raw_request(LETTER))
    assert posted.status_code == 200
    busy_shop.wait_for_mails(MONA)
    other = raw_request(OTHER, envelope_from=GRACE, dkim="{@example.org : pass}")
    assert busy_shop.post_inbound(other).status_code == 200
    busy_shop.wait_for_mails(TESS)
    be_answered(busy_shop, TESS, f"Hello Grace{BREAK}")
    link = approval_path(busy_shop)
    post_form(
        busy_shop.client,
        link,
        decision="reject",
        note="No" + BREAK,
        note_shared="yes",
        amount=BREAK,
    )
    busy_shop.wait_for_refund("rejected")
    busy_shop.wait_for_mails(ADA, 2)
    address = f"{OLGA}{BREAK}"
    post_form(busy_shop.client, "/ops/login", email=address)
    post_form(busy_shop.client, "/ops/login", email=OLGA, next="/ops" + BREAK)
    busy_shop.wait_for_mails(OLGA)
    asked = busy_shop.faults.asked
    # The hand-over, what the colleague writes to Grace and the outcome go out beside one another.
    wait_until(lambda: len(asked) >= 7 and busy_shop.at_rest(), 30, "all seven mails")
    for body in asked:
        check(body)
    assert {body["personalizations"][0]["to"][0]["email"] for body in asked} >= {ADA, GRACE, MONA}
