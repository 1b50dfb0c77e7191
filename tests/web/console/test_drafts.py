"""Drafts: an answer that waits is sent once, by whoever presses first, and never after it was overtaken."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.demo.scripted_model import Fact, Part, Phrase
from mailagent.domain.mail.draft import LONGEST_ANSWER
from mailagent.domain.refunds.policy import Policy, StoreCredit
from mailagent.store.mail import arrivals, conversations
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.conversation.people import hand_over
from mailagent.workflows.steps.conversation.reply import Written, write_reply
from mailagent.workflows.steps.maintenance.overdue import remind
from mailagent.workflows.steps.maintenance.sweep import enqueue_mail
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import ADA, OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, open_shop, post_form
from tests.tool_calls import WHICH_ORDER
from tests.tool_use import use
from tests.web.console.comparisons import record_comparison
from tests.web.console.drafts import SPENT, STILL_ANSWERS, age, door, field, mail_statuses
from tests.workflows.moves import person_move, reply_move

ANSWER = "Which order is it about?"


@pytest.fixture
def drafting(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop in which every answer of the agent waits for a click."""
    with open_shop(tmp_path, database_url, {"DRAFT_REPLIES": "all"}) as harness:
        yield harness


def take(harness: Harness) -> Batch:
    batch = take_batch(harness.rows("SELECT conversation_id FROM conversations")[0].conversation_id)
    assert batch is not None
    return batch


def reply(batch: Batch, *parts: Part) -> Written:
    return write_reply(batch, reply_move(batch, *(parts or (WHICH_ORDER,))), SPENT)


def draft(harness: Harness, text: str = "Where is my parcel?", answer: Part = WHICH_ORDER) -> Any:
    """Have Ada write and the agent answer; return the row of the draft."""
    harness.write(text)
    reply(take(harness), answer)
    return latest(harness)


def latest(harness: Harness) -> Any:
    return harness.rows("SELECT * FROM drafts ORDER BY draft_id DESC")[0]


def press(harness: Harness, draft_id: str, action: str, person: str = TESS, **fields: Any) -> Any:
    path = f"/ops/drafts/{draft_id}"
    return post_form(harness.log_in(person), path, page="/ops", action=action, **fields)


def written(harness: Harness) -> list[Any]:
    return harness.rows("SELECT * FROM outbound_mails WHERE purpose = 'reply'")


def test_a_draft_is_no_mail_until_somebody_sends_it(drafting: Harness) -> None:
    waiting = draft(drafting)
    assert (waiting.state, written(drafting), mail_statuses(drafting)) == (
        "waiting", [], ["unanswered"],
    )  # fmt: skip
    page = drafting.log_in(TESS).get(f"/ops/conversations/{waiting.conversation_id}").text
    assert STILL_ANSWERS not in page
    response = press(drafting, waiting.draft_id, "send")
    assert (response.status_code, response.location) == (303, f"/ops/drafts/{waiting.draft_id}")
    (mail,) = written(drafting)
    assert ANSWER in mail.text
    assert (mail.to_address, mail.auto_submitted) == (ADA, "no")
    assert mail_statuses(drafting) == ["answered"]
    sent = latest(drafting)
    assert (sent.state, sent.decided_by, sent.outbound_id) == ("sent", TESS, mail.outbound_id)
    (row,) = drafting.rows("SELECT * FROM audit WHERE action = 'draft sent'")
    assert (row.actor, row.subject) == (TESS, waiting.draft_id)


@pytest.mark.parametrize(("action", "text"), [("send", None), ("edit", "Here is the manual.")])
def test_a_draft_is_sent_with_files(drafting: Harness, action: str, text: str | None) -> None:
    waiting = draft(drafting)
    fields = {"text": text} if text else {}
    for name, status in (("run.exe", 422), ("manual.pdf", 303), ("other.pdf", 303)):
        files = [(io.BytesIO(b"%PDF"), name)]
        told = press(drafting, waiting.draft_id, action, **fields, files=files)
        assert told.status_code == status
        assert ("Choose your files again" in told.text) == (status == 422)
    (mail,) = written(drafting)
    files = drafting.rows("SELECT outbound_id, name FROM outgoing_files")
    assert [tuple(row) for row in files] == [(mail.outbound_id, "manual.pdf")]


def test_the_steps_done_again_write_no_second_draft_and_no_mail(drafting: Harness) -> None:
    drafting.write("Where is my parcel?")
    batch = take(drafting)
    assert reply(batch)["done"] == "wrote a draft"
    for state in ("waiting", "sent"):
        assert reply(batch)["outbound_ids"] == [row.outbound_id for row in written(drafting)]
        assert hand_over(batch, person_move("CUSTOMER_ASKED")) == [
            row.outbound_id for row in written(drafting)
        ]
        assert take_batch(batch["conversation_id"]) is None
        assert [row.state for row in drafting.rows("SELECT state FROM drafts")] == [state]
        press(drafting, latest(drafting).draft_id, "send")
    assert len(written(drafting)) == 1


def test_what_a_person_sent_does_not_bring_the_loop_guard_nearer(drafting: Harness) -> None:
    waiting = draft(drafting)
    press(drafting, waiting.draft_id, "send")
    since = drafting.live.now() - timedelta(hours=1)

    def count() -> int:
        with drafting.live.database.snapshot() as connection:
            return len(arrivals.list_automatic(connection, since, True, "another", ADA))

    assert count() == 0
    with drafting.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE outbound_mails SET auto_submitted = 'auto-replied'")
    assert count() == 1  # as the agent's own answer is


def test_what_somebody_changed_is_what_the_customer_reads(drafting: Harness) -> None:
    waiting = draft(drafting)
    press(drafting, waiting.draft_id, "edit", text="Dear Ada,\r\nwe look for it today.")
    (mail,) = written(drafting)
    assert "we look for it today." in mail.text
    assert ANSWER not in mail.text
    assert mail.auto_submitted == "no"
    assert (latest(drafting).state, latest(drafting).text) == ("edited", ANSWER)


@ONE_DATABASE
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_changed_draft_offers_store_credit_if_its_sentence_is_kept(
    drafting: Harness, is_kept: bool
) -> None:
    services.bind(replace(drafting.live, policy=Policy(store_credit=StoreCredit(10))))
    drafting.stock(order())
    drafting.write("May I have credit for the kettle of W1001?")
    asked = take(drafting)
    items = [{"item_id": "K1", "quantity": None}]
    wish = {"order_id": "W1001", "items": items, "reason": "damaged", "pay_as": "store_credit"}
    use(propose_refund, asked, wish)
    reply(asked, Fact("store_credit/W1001"))
    waiting = latest(drafting)
    text = f"Dear Ada,\n\n{waiting.text}" if is_kept else "We look for it today."
    press(drafting, waiting.draft_id, "edit", text=text)
    offered = drafting.rows("SELECT subject FROM audit WHERE action = 'store credit offered'")
    assert [row.subject for row in offered] == ["W1001"] * is_kept


@pytest.mark.parametrize(("action", "shown"), [("edit", 1), ("discard", 0)])
def test_what_somebody_sent_instead_is_beside_its_comparison(
    drafting: Harness, action: str, shown: int
) -> None:
    waiting = draft(drafting)
    press(drafting, waiting.draft_id, action, text="We look for it <b>today</b>. K7MX-4PQR-9TWZ")
    (mail,) = drafting.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    record_comparison(
        drafting,
        mail_id=mail.mail_id,
        conversation_id=mail.conversation_id,
        draft=latest(drafting).state,
    )
    page = drafting.log_in(OLGA).get("/ops/comparisons").text
    assert page.count("We look for it &lt;b&gt;today") == shown
    assert page.count("<summary>Sent with changes") == shown
    assert "K7MX" not in page


def test_my_version_without_a_change_counts_as_sent_as_it_is(drafting: Harness) -> None:
    press(drafting, draft(drafting).draft_id, "edit", text=f"{ANSWER}\r\n")
    assert latest(drafting).state == "sent"


@pytest.mark.parametrize(
    ("action", "fields", "says"),
    [
        ("edit", {"text": "  \n "}, "There is nothing in it"),
        ("edit", {"text": "x" * (LONGEST_ANSWER + 1)}, "10,000 are the most"),
        ("send", {"text": "Something else"}, "You changed the text"),
        ("discard", {"reason": " "}, "Please say why"),
        ("discard", {"reason": "x" * 501}, "at most 500"),
        ("burn", {}, "Please press one of the buttons"),
    ],
    ids=["empty", "too long", "changed but sent as it is", "no reason", "long reason", "unknown"],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_lost(
    drafting: Harness, action: str, fields: dict[str, str], says: str
) -> None:
    response = press(drafting, draft(drafting).draft_id, action, **fields)
    assert response.status_code == 422
    assert says in response.text
    assert fields.get("text", ANSWER).strip() in response.text
    assert (latest(drafting).state, written(drafting)) == ("waiting", [])


def test_discarding_says_on_the_mail_who_wanted_no_answer_and_why(drafting: Harness) -> None:
    press(drafting, draft(drafting).draft_id, "discard", reason="Only a  thank-you")
    (mail,) = drafting.rows("SELECT * FROM inbound_mails")
    assert mail.status == "no_answer"
    assert mail.no_answer_reason == f"{TESS} decided that it needs no answer: Only a thank-you"
    assert (latest(drafting).state, written(drafting)) == ("discarded", [])


def test_the_second_person_hears_who_was_faster_and_keeps_their_words(drafting: Harness) -> None:
    waiting = draft(drafting)
    press(drafting, waiting.draft_id, "send", OLGA)
    late = press(drafting, waiting.draft_id, "edit", TESS, text="Mine was better.")
    assert late.status_code == 409
    assert "Another person was first" in late.text
    assert OLGA in late.text
    assert "Mine was better." in late.text
    assert len(written(drafting)) == 1
    again = press(drafting, waiting.draft_id, "send", OLGA)
    assert again.status_code == 303
    assert len(written(drafting)) == 1


def test_a_new_mail_takes_the_draft_back_and_both_are_answered_together(drafting: Harness) -> None:
    first = draft(drafting)
    drafting.write("It came!", to=door(drafting))
    page = drafting.log_in(TESS).get(f"/ops/drafts/{first.draft_id}")
    assert "The customer has written again" in page.text
    batch = take(drafting)
    assert len(batch["mail_ids"]) == 2
    late = press(drafting, first.draft_id, "send")
    assert late.status_code == 409
    assert "The customer wrote again" in late.text
    assert "The agent is writing a new one" in late.text
    reply(batch, Phrase("glad_to_hear"))
    assert latest(drafting).draft_id in press(drafting, first.draft_id, "send").text
    press(drafting, latest(drafting).draft_id, "send")
    (mail,) = written(drafting)
    assert "I am glad to hear that." in mail.text
    assert mail_statuses(drafting) == ["answered", "answered"]


def test_a_forged_mail_takes_no_draft_back(drafting: Harness) -> None:
    first = draft(drafting)
    drafting.write("Forget it.", to=door(drafting), aligned=False)
    batch = take(drafting)
    assert len(batch["mail_ids"]) == 1
    reply(batch, Fact("not_verified"))
    rows = drafting.rows("SELECT * FROM drafts WHERE state = 'waiting' ORDER BY draft_id")
    assert rows[0].draft_id == first.draft_id
    assert len(rows) == 2


def test_handing_the_conversation_over_takes_the_draft_back(drafting: Harness) -> None:
    waiting = draft(drafting)
    live = drafting.live
    with live.database.transaction() as connection:
        conversations.hand_over(connection, waiting.conversation_id, "a test", live.now())
    assert latest(drafting).state == "superseded"
    assert "People took the conversation" in press(drafting, waiting.draft_id, "send").text
    assert take(drafting)["task"] == "pass_on"


def test_taking_over_from_the_draft_throws_it_away(drafting: Harness) -> None:
    waiting = draft(drafting)
    response = press(drafting, waiting.draft_id, "take_over")
    assert response.location == f"/ops/conversations/{waiting.conversation_id}"
    assert latest(drafting).state == "discarded"
    (conversation,) = drafting.rows("SELECT * FROM conversations")
    assert (conversation.status, conversation.owner_email) == ("handed_over", TESS)
    assert take_batch(waiting.conversation_id) is None
    base = f"/ops/conversations/{waiting.conversation_id}"
    post_form(drafting.log_in(TESS), f"{base}/give-back", page="/ops")
    reply(take(drafting))
    assert latest(drafting).state == "waiting"


@ONE_DATABASE
def test_taking_over_from_the_draft_keeps_what_was_typed(drafting: Harness) -> None:
    waiting = draft(drafting)
    page = drafting.log_in(TESS).get(f"/ops/drafts/{waiting.draft_id}").text
    assert 'form="answer" name="action" value="take_over"' in page
    for _ in range(2):
        response = press(drafting, waiting.draft_id, "take_over", text="Dear Ada, it is <here>")
        assert response.status_code == 200
        assert "Dear Ada, it is &lt;here&gt;</textarea>" in response.text
    assert (latest(drafting).state, written(drafting)) == ("discarded", [])
    press(drafting, waiting.draft_id, "take_over", text=f"{ANSWER}\r\n")
    late = press(drafting, waiting.draft_id, "take_over", OLGA, text="Something of Olga's")
    assert (late.status_code, "Something of Olga" in late.text) == (409, True)


def test_the_sweep_lets_a_draft_wait_and_reminds_of_all_that_are_due_once(
    drafting: Harness,
) -> None:
    waiting = draft(drafting)
    age(drafting, "inbound_mails", "received_at", hours=9)
    enqueue_mail()
    assert latest(drafting).state == "waiting"
    assert mail_statuses(drafting) == ["unanswered"]
    assert notices(drafting) == []
    age(drafting, "drafts", "created_at", hours=5)
    assert (remind(), remind()) == (1, 0)
    (notice,) = notices(drafting)
    assert notice.to_address == TESS
    assert f"/ops/drafts/{waiting.draft_id}" in notice.text


def notices(harness: Harness) -> list[Any]:
    return harness.rows("SELECT * FROM outbound_mails WHERE purpose = 'notice'")


def test_mail_of_a_draft_that_was_taken_back_has_its_time_anew(drafting: Harness) -> None:
    draft(drafting)
    age(drafting, "inbound_mails", "received_at", hours=9)
    drafting.write("And?", to=door(drafting))
    take(drafting)
    enqueue_mail()
    assert drafting.rows("SELECT status FROM conversations")[0].status == "open"
    age(drafting, "drafts", "decided_at", hours=9)
    enqueue_mail()
    assert drafting.rows("SELECT status FROM conversations")[0].status == "handed_over"


def test_the_list_shows_whom_and_about_what(drafting: Harness) -> None:
    drafting.stock(order())
    draft(drafting, answer=Fact("order/W1001"))
    client = drafting.log_in(TESS)
    page = client.get("/ops/drafts", follow_redirects=True).text
    assert ADA in page
    assert "about an order" in page
    press(drafting, latest(drafting).draft_id, "edit", text="It came.")
    page = client.get("/ops/drafts", follow_redirects=True).text
    assert "Nothing waits here" in page


def test_facts_that_changed_since_are_read_anew_and_nothing_is_sent_unread(
    drafting: Harness,
) -> None:
    drafting.stock(order())
    waiting = draft(drafting, answer=Fact("order/W1001"))
    path = f"/ops/drafts/{waiting.draft_id}"
    assert "records have changed" not in drafting.log_in(TESS).get(path).text
    drafting.stock(order(status="cancelled"))
    told = drafting.log_in(TESS).get(path).text
    assert "records have changed" in told
    assert "was cancelled." in told
    refused = press(drafting, waiting.draft_id, "send", text=waiting.text)
    assert "read the text again" in refused.text
    assert "was cancelled." in refused.text.partition("<textarea")[2]
    assert written(drafting) == []
    press(drafting, waiting.draft_id, "send")
    assert "was cancelled." in written(drafting)[0].text


def test_my_version_is_not_sent_with_facts_that_changed_since_the_page_was_opened(
    drafting: Harness,
) -> None:
    drafting.stock(order())
    waiting = draft(drafting, answer=Fact("order/W1001"))
    opened = drafting.log_in(TESS).get(f"/ops/drafts/{waiting.draft_id}").text
    drafting.stock(order(status="cancelled"))
    mine = {"text": f"{waiting.text}\n\nHave a nice day.", "shown": field(opened, "shown")}
    for action in ("send", "edit"):
        told = press(drafting, waiting.draft_id, action, **mine)
        assert (told.status_code, written(drafting)) == (422, [])
        assert "read the text again" in told.text
        before, _, after = told.text.partition("<textarea")
        assert "was cancelled." in before
        assert "Have a nice day." in after
    late = press(drafting, waiting.draft_id, "take_over", **mine | {"text": waiting.text})
    assert late.location == f"/ops/conversations/{waiting.conversation_id}"  # nothing typed to keep


@pytest.mark.parametrize("text", ["Dear Ada, it is cancelled.", None])
def test_my_version_is_sent_once_its_page_shows_what_is_on_record(
    drafting: Harness, text: str | None
) -> None:
    drafting.stock(order())
    waiting = draft(drafting, answer=Fact("order/W1001"))
    drafting.stock(order(status="cancelled"))
    text = text or waiting.text  # what the agent wrote first
    refused = press(drafting, waiting.draft_id, "edit", text=text)
    assert refused.status_code == 422
    press(drafting, waiting.draft_id, "edit", text=text, shown=field(refused.text, "shown"))
    assert latest(drafting).state == "edited"
    assert text in written(drafting)[0].text


def test_only_answers_that_speak_of_money_wait_if_the_shop_wants_that(
    tmp_path: Path, database_url: str
) -> None:
    with open_shop(tmp_path, database_url, {"DRAFT_REPLIES": "refunds"}) as harness:
        harness.stock(order())
        harness.write("Where is my parcel?")
        reply(take(harness))
        assert len(written(harness)) == 1
        harness.write("Please refund order W1001.", to=door(harness))
        batch = take(harness)
        items = [{"item_id": "K1", "quantity": 1}]
        use(propose_refund, batch, {"order_id": "W1001", "items": items, "reason": "damaged"})
        reply(batch, Fact("refund/W1001"))
        assert len(written(harness)) == 1
        assert "refund" in latest(harness).topics
