"""What strangers write into names, subjects, ids and notes never becomes a header or a recipient of a mail
of ours: what SendGrid is asked is looked at as it left us."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, MALLORY, MAX, MONA, OLGA, SUPPORT, TESS, big_order
from tests.harness import Harness, post_form, wait_until
from tests.hostile import be_answered
from tests.round_trips.approvals import approval_path

# What is looked at here is the same on both databases.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BREAK = f"\r\nBcc: {MALLORY}\r\nX-Injected: yes\r\n\r\nWritten by somebody else"
ENCODED = f"=?utf-8?q?Desk=0D=0ABcc:_{MALLORY.replace('@', '=40')}=0D=0AX-Injected:_yes?="
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
    post_form(busy_shop.client, link, decision="reject", note="No" + BREAK, amount=BREAK)
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
