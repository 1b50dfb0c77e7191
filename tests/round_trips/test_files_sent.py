"""Files of the team's answers: they reach the customer once, the same bytes at each attempt, and go with the
mail's text."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from mailagent import services
from mailagent.store.ids import new_id
from mailagent.workflows.steps.maintenance import housekeeping
from tests.cast import ADA, TESS
from tests.harness import Harness, pass_time, running, wait_until
from tests.round_trips.provider_faults import limited
from tests.round_trips.replays import by_our_command, runs_of, wait_for_quiet
from tests.web.console.drafts import press

MANUAL = bytes(range(256)) * 4


def answer_with_manual(shop: Harness) -> str:
    """Let Tess answer Ada with a file; return the id of the conversation."""
    shop.write("May I have the manual?")
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    fields = {"text": "Here it is.", "once": new_id("once")}
    files = [(io.BytesIO(MANUAL), "manual.pdf")]
    sent = press(shop.log_in(TESS), row.conversation_id, "answer", **fields, files=files)
    assert sent.status_code == 303
    return str(row.conversation_id)


@pytest.mark.both_databases
def test_each_attempt_sends_the_same_bytes_and_the_customer_gets_them_once(shop: Harness) -> None:
    answer_with_manual(shop)
    shop.faults.sendgrid.append(limited)
    with running(shop):
        shop.wait_for_mails(ADA)
        wait_for_quiet(shop)
        for run_id in runs_of(shop, "delivery"):
            by_our_command(shop, run_id)
        wait_for_quiet(shop)
    (mail,) = shop.mails_to(ADA)
    assert [(file.name, file.content_type, file.content) for file in mail.files] == [
        ("manual.pdf", "application/pdf", MANUAL)
    ]
    asked = [body["attachments"] for body in shop.faults.asked if "attachments" in body]
    assert len(asked) == 2
    assert asked[0] == asked[1]


def test_files_go_with_the_text_of_the_mail_and_not_before(shop: Harness) -> None:
    conversation_id = answer_with_manual(shop)
    pass_time(shop, days=400)
    kept = replace(services.current().retention, mail_days=90)
    services.bind(replace(services.current(), retention=kept))
    deadline = housekeeping.Deadline(None)
    assert housekeeping.take_out_text(deadline) == 0  # it was not sent yet
    assert shop.rows("SELECT 1 FROM outgoing_files")
    services.bind(shop.live)
    with running(shop):
        wait_until(shop.at_rest, 30, "rest")
    page = shop.log_in(TESS).get(f"/ops/conversations/{conversation_id}")
    assert "manual.pdf" in page.text
    pass_time(shop, days=400)
    services.bind(replace(services.current(), retention=kept))
    assert housekeeping.take_out_text(deadline) > 0
    assert shop.rows("SELECT 1 FROM outgoing_files") == []
    services.bind(shop.live)
    page = shop.log_in(TESS).get(f"/ops/conversations/{conversation_id}")
    assert (page.status_code, "manual.pdf" in page.text) == (200, False)
