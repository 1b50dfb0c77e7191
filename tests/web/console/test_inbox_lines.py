"""Lines of the inbox: each says whose it is and what it is about, and none stands for nothing to do."""

from __future__ import annotations

import json
import re
from datetime import datetime
from html import unescape

import pytest
from flask.testing import FlaskClient

from mailagent.store.pagination import microseconds
from mailagent.workflows.tools.request_change import request_change
from tests.cast import MAX, MONA, OLGA, TESS, order
from tests.harness import Harness, post_form
from tests.tool_use import use
from tests.web.console.failed_runs import change_run, fail_run, lose, told
from tests.web.questions import Question
from tests.workflows.proposals import propose, write


def rows_of(client: FlaskClient, path: str) -> list[str]:
    """Return the lines of a list, each as plain text."""
    table = client.get(path).text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        " ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split())
        for row in table.split("<tr>")[1:]
    ]  # fmt: skip


def test_of_the_sweeps_that_failed_on_a_day_one_line_stands_for_all(shop: Harness) -> None:
    days = {"01": "2026-11-20T10:01", "02": "2026-11-20T10:02", "03": "2026-11-21T10:00"}
    for name, due in days.items():
        run_id = fail_run(shop)
        failed_ms = microseconds(datetime.fromisoformat(f"{due}:30+00:00")) // 1000
        changes = (
            f"name = 'sweep', completed_at = {failed_ms}, workflow_uuid = 'sched-{due}-{name}'"
        )
        change_run(shop, run_id, changes)
    client, path = shop.log_in(OLGA), "/ops?waiting=failed"
    listed = re.findall(r'name="subject" value="([^"]+)"', client.get(path).text)
    assert listed == ["sched-2026-11-20T10:02-02", "sched-2026-11-21T10:00-03"]
    assert told(client.get("/ops/live"), "failed")[0] == "2"
    post_form(client, "/ops/dismiss", path, subject=listed[0])
    assert re.findall(r'name="subject" value="([^"]+)"', client.get(path).text) == listed[1:]


def test_failed_runs_say_whose_and_what_they_were_about(shop: Harness) -> None:
    shop.stock(order())
    propose(write(shop), "W1001")
    conversation_id, refund_id = shop.rows("SELECT conversation_id, refund_id FROM refunds")[0]
    lost = lose(shop, "receipt")
    for name, subject in (
        ("conversation", conversation_id), ("refund", refund_id), ("delivery", lost),
        ("refund", "refund_gone"),
    ):  # fmt: skip
        attributes = json.dumps({"subject": subject})
        change_run(shop, fail_run(shop), f"name = '{name}', attributes = '{attributes}'")
    rows = rows_of(shop.log_in(OLGA), "/ops?waiting=failed")
    assert sorted(row.partition(" failed")[0] for row in rows) == [
        "Answering a mail: My kettle, order W1001 ada@example.com $49.99",
        "Completing a refund – –",
        "Completing a refund: order W1001 ada@example.com $49.99",
        "Sending a mail: notice to people of the shop ada@example.com –",
    ]
    seen_by_team = shop.log_in(TESS).get("/ops?waiting=failed").text
    assert f'href="/ops/refunds/{refund_id}"' in seen_by_team
    assert f'href="/ops/conversations/{conversation_id}"' in seen_by_team


def test_a_failed_conversation_names_the_order_of_its_tasks_and_none_of_several(
    shop: Harness,
) -> None:
    shop.stock(order(), order("W1002"))
    batch = write(shop)
    attributes = json.dumps({"subject": batch["conversation_id"]})
    change_run(shop, fail_run(shop), f"name = 'conversation', attributes = '{attributes}'")
    olga, rows = shop.log_in(OLGA), list[str]()
    for order_id in (None, "W1001", "W1002"):
        if order_id is not None:
            kettle = {"items": [{"item_id": "K1", "quantity": None}], "reason": "other"}
            asked = {"order_id": order_id, "kind": "exchange", "wish": None} | kettle
            assert use(request_change, batch, asked)["outcome"] == "task"
        rows += rows_of(olga, "/ops?waiting=failed")
    assert [row.partition(" failed")[0] for row in rows] == [
        "Answering a mail: My kettle ada@example.com",
        "Answering a mail: My kettle, order W1001 ada@example.com",
        "Answering a mail: My kettle ada@example.com",
    ]


def test_mail_without_an_answer_says_when_its_run_failed_and_leaves_drafts_out(
    shop: Harness,
) -> None:
    for text in ("first", "second", "third"):
        shop.write(text, subject=text)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET draft_id = 'draft_x' WHERE subject = 'third'"
        )
    (failed, *_) = shop.rows("SELECT run_id FROM inbound_mails WHERE subject = 'first'")
    change_run(shop, failed.run_id, "status = 'ERROR'")
    path = "/ops?waiting=unanswered"
    client = shop.log_in(OLGA)
    assert [row.rpartition(" just now")[0] for row in rows_of(client, path)] == [
        "first ada@example.com its run failed",
        "second ada@example.com with the agent",
    ]
    assert f'<a href="/ops/runs/{failed.run_id}">' in client.get(path).text
    assert "its run failed" in shop.log_in(TESS).get(path).text
    assert "/ops/runs/" not in shop.log_in(TESS).get(path).text


WAITING = "/ops?waiting=approvals"


@pytest.mark.parametrize(("decision", "verb"), [("approve", "approved"), ("reject", "rejected")])
def test_a_decision_that_can_be_taken_back_is_called_what_it_is(
    question: Question, decision: str, verb: str
) -> None:
    question.let_decisions_wait()
    question.decide(decision)
    (row,) = rows_of(question.shop.log_in(TESS), WAITING)
    assert f"{verb} by {MONA}, can be taken back until" in row
    assert "a second person is needed" not in row


def test_a_second_person_is_named_only_while_one_is_needed(dear: Question) -> None:
    tess = dear.shop.log_in(TESS)
    dear.decide("approve")
    assert f"approved by {MONA}, a second person is needed" in rows_of(tess, WAITING)[0]
    dear.let_decisions_wait()
    dear.decide("reject", MAX)
    assert f"rejected by {MAX}, can be taken back until" in rows_of(tess, WAITING)[0]
