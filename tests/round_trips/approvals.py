"""The mailed link that a manager decides by."""

from __future__ import annotations

import re

from mailagent.adapters.links import Links
from tests.cast import MONA
from tests.harness import Harness
from tests.hostile import HOSTILE, ORDER, code
from tests.web.doors import doors
from tests.web.questions import hidden_fields


def approval_path(harness: Harness) -> str:
    (approval,) = harness.rows("SELECT approval_id FROM approvals")
    links: Links = harness.live.links
    return links.sign_approval(approval.approval_id, MONA).replace(harness.live.shop.public_url, "")


def starts(harness: Harness) -> list[str]:
    """Return the pages of the console that a person opens first."""
    return [
        door.rule.rule
        for door in doors(harness)
        if door.method == "GET" and door.rule.rule.startswith("/ops") and not door.rule.arguments
    ] + [f"/ops/customers/{HOSTILE}", f"/ops/search?q={ORDER}", f"/ops/search?q={code('QUERY')}"]


def decide(shop: Harness, link: str, decision: str, **form: str) -> str:
    """Open a manager's link and press a button, as a browser would."""
    path = link.replace(shop.live.shop.public_url, "")
    client = shop.client
    told = hidden_fields(client.get(path).text, "csrf_token", "refunded_elsewhere")
    assert "csrf_token" in told
    return client.post(path, data={"decision": decision, **told, **form}).text


def link_in(text: str) -> str:
    found = re.search(r"http://localhost:8000/approvals/\S+", text)
    assert found is not None
    return found[0]
