"""Draft mode, whole: nothing leaves and nothing is paid before somebody has pressed a button, then once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.adapters.knowledge import read_knowledge
from mailagent.demo.scripted_model import Fact
from mailagent.store.ids import new_id
from tests.cast import ADA, MONA, OLGA, TESS, order
from tests.harness import Harness, open_shop, post_form, running, wait_until
from tests.round_trips.replays import facts, wait_for_quiet
from tests.tool_calls import says

POLICY = '[draft]\nrefunds_above = { USD = "20.00" }\nunasked_reasons = ["changed_mind"]\n'


@pytest.fixture
def drafting(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A busy shop in its first weeks: answers and refunds wait for people."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    settings = {
        "DRAFT_REPLIES": "all",
        "DRAFT_REFUNDS": "all",
        "REFUND_POLICY": str(policy),
    }
    with open_shop(tmp_path, database_url, settings) as harness, running(harness):
        harness.stock(order())
        yield harness


def wait_for_drafts(harness: Harness, count: int) -> str:
    """Wait for so many drafts, and return the newest."""
    query = "SELECT draft_id FROM drafts ORDER BY draft_id"
    wait_until(lambda: len(harness.rows(query)) >= count, 30, f"{count} drafts")
    return str(harness.rows(query)[-1].draft_id)


def states(harness: Harness) -> list[str]:
    return [row.state for row in harness.rows("SELECT state FROM drafts ORDER BY draft_id")]


class OpenDraft:
    """A waiting draft on a person's screen: found in the list of the inbox, and opened from there."""

    def __init__(self, harness: Harness, draft_id: str) -> None:
        self.path = f"/ops/drafts/{draft_id}"
        self.client = harness.log_in(TESS)
        listed = self.client.get("/ops/drafts", follow_redirects=True)
        assert listed.request.full_path == "/ops?waiting=drafts"
        assert f'href="{self.path}"' in listed.text
        self.page = self.client.get(self.path).text

    def press(self, action: str, **fields: str) -> TestResponse:
        """Press a button of the page as it was when it was opened."""
        assert f'name="action" value="{action}"' in self.page
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.page)
        assert token is not None
        return self.client.post(
            self.path, data={"csrf_token": token[1], "action": action, **fields}
        )


def check_that_a_replay_is_told(harness: Harness, draft_id: str) -> None:
    """Whoever is about to replay a run reads that the draft waits, not that the agent answers."""
    run = next(
        run
        for run in harness.live.workflow_client.runs.list_runs()
        if run.workflow == "conversation"
    )
    told, path = "An answer waits as a draft: nothing new is written", f"/ops/drafts/{draft_id}"
    for place in ("", "/replay"):
        page = harness.log_in(OLGA).get(f"/ops/runs/{run.run_id}{place}").text
        assert (told in page, "The agent answers" in page) == (True, False)
        assert f'href="{path}"' in page
    shown = harness.app.test_cli_runner().invoke(args=["runs", "show", run.run_id]).output
    assert (told in shown, path in shown, "The agent answers" in shown) == (True, True, False)


def test_an_answer_waits_is_overtaken_and_goes_out_once_whatever_is_replayed(
    drafting: Harness,
) -> None:
    drafting.write("Which orders of mine do you have?")
    opened = OpenDraft(drafting, wait_for_drafts(drafting, 1))
    token = drafting.rows("SELECT reply_token FROM conversations")[0].reply_token
    drafting.write("And which items?", to=f"case+{token}@shop.example")
    second = wait_for_drafts(drafting, 2)
    assert opened.press("send").status_code == 409
    wait_for_quiet(drafting)
    assert states(drafting) == ["superseded", "waiting"]
    check_that_a_replay_is_told(drafting, second)
    replay_all(drafting)
    assert states(drafting) == ["superseded", "waiting"]
    assert drafting.mails_to(ADA) == []
    OpenDraft(drafting, second).press("edit", text="One kettle, in W1001.")
    (mail,) = drafting.wait_for_mails(ADA)
    assert "One kettle, in W1001." in mail.text
    before = facts(drafting)
    replay_all(drafting)
    assert facts(drafting) == before
    assert states(drafting) == ["superseded", "edited"]
    assert len(drafting.mails_to(ADA)) == 1
    mails = drafting.rows("SELECT status, answered_by FROM inbound_mails")
    assert len({mail.answered_by for mail in mails}) == 1
    assert {mail.status for mail in mails} == {"answered"}


def replay_all(harness: Harness) -> None:
    """Replay every run of the conversation from its first step, and from its second."""
    wait_for_quiet(harness)
    workflow_client = harness.live.workflow_client
    runs = [run for run in workflow_client.runs.list_runs() if run.workflow == "conversation"]
    for run in runs:
        for from_step in (1, 2):
            workflow_client.replays.replay_run(run.run_id, from_step)
            wait_for_quiet(harness)


def test_a_refund_that_would_be_paid_at_once_waits_for_a_manager(drafting: Harness) -> None:
    drafting.write("The kettle of order W1001 is damaged, please refund it.")
    (asked,) = drafting.wait_for_mails(MONA)
    assert "The shop is in draft mode" in asked.text
    draft_id = wait_for_drafts(drafting, 1)
    page = drafting.log_in(TESS).get(f"/ops/drafts/{draft_id}").text
    assert "a refund" in page
    link = re.search(r"/approvals/\S+", asked.text)
    assert link is not None
    post_form(drafting.client, link[0], decision="approve")
    drafting.wait_for_refund("paid")
    (receipt,) = drafting.wait_for_mails(ADA)
    assert "49.99" in receipt.text
    OpenDraft(drafting, draft_id).press("discard", reason="the receipt says it all")
    wait_for_quiet(drafting)
    assert states(drafting) == ["discarded"]
    assert len(drafting.mails_to(ADA)) == 1


def test_what_the_policy_leaves_out_of_draft_mode_is_paid_at_once(drafting: Harness) -> None:
    drafting.write("I changed my mind about order W1001, please refund the kettle.")
    drafting.wait_for_refund("paid")
    assert drafting.mails_to(MONA) == []


def test_taken_over_answered_and_given_back_by_the_console(busy_shop: Harness) -> None:
    busy_shop.write("This is outrageous! I want to talk to a human being, now!")
    busy_shop.wait_for_mails(TESS)
    conversation_id = busy_shop.rows("SELECT conversation_id FROM conversations")[0][0]
    base, client = f"/ops/conversations/{conversation_id}", busy_shop.log_in(TESS)
    once = new_id("once")
    for _ in range(2):
        post_form(client, f"{base}/take-over", page="/ops")
        seen = re.search(r'name="seen" value="([^"]*)"', client.get(base).text)
        assert seen is not None
        words = {"text": "I call you today.", "once": once, "seen": seen[1]}
        post_form(client, f"{base}/answer", page="/ops", **words)
    told = busy_shop.wait_for_mails(ADA, 2)[1]
    assert "I call you today." in told.text
    assert "Tess" in told.text
    post_form(client, f"{base}/give-back", page="/ops")
    wait_for_quiet(busy_shop)
    busy_shop.write("Which orders do I have?", to=told.reply_to)
    assert len(busy_shop.wait_for_mails(ADA, 3)) == 3


def test_a_draft_keeps_its_record_and_sources_and_what_is_true_no_more_is_not_sent(
    drafting: Harness, tmp_path: Path
) -> None:
    (tmp_path / "faq.md").write_text("# Ship\n\nWe ship to Bern.")
    informed = replace(services.current(), knowledge=read_knowledge(tmp_path))
    services.bind(informed)
    drafting.faults.openai.append(says(Fact("knowledge/faq/ship"), Fact("order/W1001")))
    drafting.write("Do you ship to Bern? And W1001?")
    opened = OpenDraft(drafting, wait_for_drafts(drafting, 1))
    services.bind(drafting.live)
    refused = opened.press("send")
    assert refused.status_code == 422
    assert "Our records do not bear all of this any more" in refused.text
    services.bind(informed)
    assert opened.press("send").status_code == 303
    (mail,) = drafting.wait_for_mails(ADA)
    assert "On record for order W1001" in mail.text
    (row,) = drafting.rows("SELECT sources FROM outbound_mails WHERE purpose = 'reply'")
    assert "faq/ship@" in str(row.sources)
