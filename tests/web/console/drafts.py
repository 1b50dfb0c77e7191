"""Drafts and conversations as the console shows them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from flask.testing import FlaskClient

from mailagent.store import schema
from tests.harness import Harness, post_form


def press(client: FlaskClient, conversation_id: str, act: str, **fields: Any) -> Any:
    """Press a button of a conversation's page; `seen` is what stands there now, unless it is given."""
    path = f"/ops/conversations/{conversation_id}"
    if act == "answer" and "seen" not in fields:
        fields["seen"] = field(client.get(path).text, "seen")
    return post_form(client, f"{path}/{act}", page="/ops", **fields)


def field(page: str, name: str) -> str:
    """Return a hidden field of a form, or nothing where no such form is."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    return found[1] if found else ""


SPENT = {"model_turns": 1, "tokens": 10, "tool_calls": 0, "unusable_replies": 0,
         "provider_retries": 0}  # fmt: skip


STILL_ANSWERS = "The agent still answers the mail that waits."


def mail_statuses(harness: Harness) -> list[str]:
    rows = harness.rows("SELECT status FROM inbound_mails WHERE kind = 'customer' ORDER BY mail_id")
    return [row.status for row in rows]


def door(harness: Harness) -> str:
    token = harness.rows("SELECT reply_token FROM conversations")[0].reply_token
    return f"case+{token}@shop.example"


def age(harness: Harness, table: str, column: str, hours: int) -> None:
    """Let the rows of a table be so many hours older."""
    rows = schema.metadata.tables[table]
    with harness.live.database.transaction() as connection:
        moment = harness.live.now() - timedelta(hours=hours)
        connection.execute(rows.update().values({column: moment}))
