"""Deciding by reply: the right manager's proven mail with a plain word decides, anything else is a note."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.demo.fakes.webhooks import build_body
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.refunds import approvals as store
from mailagent.store.refunds import orders, refunds
from tests.cast import ADA, MALLORY, MAX, MONA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, letter, wait_until
from tests.web.questions import Question, ask, refund_elsewhere


def reply(asked: Question, text: str, sender: str = MONA, **changes: Any) -> Any:
    """Answer the request to Mona, or to whom `to` belongs; return the row of the answer."""
    request = ask(asked)
    values = {"to": request.reply_to, "subject": f"Re: {request.subject}", "from_address": sender}
    letter = asked.shop.write(text, **values | changes)
    query = "SELECT * FROM inbound_mails WHERE message_id = :id"
    return asked.shop.rows(query, id=letter.message_id)[0]


def told(shop: Harness, address: str = MONA) -> list[str]:
    rows = shop.rows(
        "SELECT text FROM outbound_mails WHERE to_address = :to AND purpose = 'notice'"
        " ORDER BY outbound_id",
        to=address,
    )
    return [row.text for row in rows]


@pytest.mark.parametrize(
    ("word", "status"),
    [("Approve", RefundStatus.APPROVED), ("Reject.", RefundStatus.REJECTED)],
)
def test_a_word_of_the_managers_decides(
    question: Question,
    word: str,
    status: RefundStatus,
) -> None:
    request = ask(question)
    quoted = "\n".join(f"> {line}" for line in request.text.splitlines())
    mail = reply(question, f"{word}\n\nWe owe her that.\n\nOn Monday The Shop wrote:\n{quoted}")
    refund = question.refund()
    assert (refund.status, refund.decided_by, refund.note) == (status, MONA, "We owe her that.")
    (made,) = question.shop.rows("SELECT note_shared, mail_id FROM decisions")
    assert (bool(made.note_shared), made.mail_id) == (False, mail.mail_id)
    assert (mail.kind, mail.status, mail.conversation_id) == ("manager", "no_answer", None)
    assert "Recorded" in mail.no_answer_reason
    (audited,) = question.shop.rows("SELECT * FROM audit WHERE action LIKE 'refund %'")
    assert audited.actor == MONA
    assert mail.mail_id in str(audited.details)
    (answer,) = told(question.shop)
    assert "Recorded: refund of $1,499.00, order W2001" in answer
    assert "the customer does not get it" in answer


def test_a_reply_says_whom_the_note_is_for(question: Question) -> None:
    assert "For the customer:" in ask(question).text
    reply(question, "Reject\n\nFor the customer:\nIt was not damaged.")
    (made,) = question.shop.rows("SELECT note, note_shared FROM decisions")
    assert (made.note, bool(made.note_shared)) == ("It was not damaged.", True)
    (answer,) = told(question.shop)
    assert "The customer gets this note with the decision: It was not damaged." in answer


def test_a_decision_by_reply_can_be_taken_back_by_the_link(question: Question) -> None:
    waits = replace(question.shop.live.waits, approval_undo_seconds=300)
    services.bind(replace(question.shop.live, waits=waits))
    reply(question, "Approve")
    (answer,) = told(question.shop)
    assert f"{MONA} can take that back, by the link in the mail that asked them" in answer
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert "You have taken back your decision" in question.decide("undo").text
    reply(question, "Reject")
    (made,) = question.shop.rows("SELECT decision FROM decisions")
    assert made.decision == "reject"


@ONE_DATABASE
def test_a_note_that_our_answer_repeated_is_read_again(question: Question) -> None:
    waits = replace(question.shop.live.waits, approval_undo_seconds=300)
    services.bind(replace(question.shop.live, waits=waits))
    note = "It was used for a year.\nSo we cannot take it back, as our terms say.\nMona of the refunds desk"
    for undone in (True, False):
        reply(question, f"Reject\n\nFor the customer:\n{note}")
        (made,) = question.shop.rows("SELECT note, note_shared FROM decisions")
        assert (made.note, bool(made.note_shared)) == (note, True)
        if undone:
            question.decide("undo")


@pytest.mark.parametrize(
    "text", ["Approve?", "Yes, go on.", "approve, but only half", "Is this new?"]
)
def test_anything_else_is_a_note_that_the_others_read(question: Question, text: str) -> None:
    mail = reply(question, text)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT * FROM decisions") == []
    assert "Noted, not decided" in mail.no_answer_reason
    (answer,) = told(question.shop)
    assert 'with the word "approve" or "reject"' in answer
    page = question.shop.client.get(question.link(MAX)).text
    assert text in page.replace("&#39;", "'")
    assert text in ask(question, MAX).text


@ONE_DATABASE
@pytest.mark.parametrize("above", ["", "Sent from my iPhone\n"])
def test_a_reply_that_only_quotes_the_request_is_no_note(question: Question, above: str) -> None:
    quoted = "\n".join(f"> {line}" for line in ask(question).text.splitlines())
    mail = reply(question, f"{above}On Monday The Shop wrote:\n{quoted}")
    assert "Not decided" in mail.no_answer_reason
    assert question.shop.rows("SELECT 1 FROM approval_notes") == []
    (answer,) = told(question.shop)
    assert "above what your program quotes" in answer


@ONE_DATABASE
def test_a_note_for_the_customer_holds_nothing_that_we_told_the_manager(question: Question) -> None:
    """The program quotes our answer to the manager without a mark: nothing is decided."""
    request = ask(question)
    reply(question, "Why is it so dear?")
    (notice,) = question.shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'notice'")
    text = f"Reject\n\nFor the customer:\nWe are sorry.\n\n{notice.text}"
    question.shop.write(text, from_address=MONA, to=request.reply_to, in_reply_to=notice.message_id)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert "Not decided" in told(question.shop)[-1]
    assert question.shop.rows("SELECT 1 FROM approval_notes WHERE text LIKE '%sorry%'") == []


def by_mallory(asked: Question) -> Any:
    return reply(asked, "approve", MALLORY)


def forged(asked: Question) -> Any:
    return reply(asked, "approve", aligned=False)


def by_max(asked: Question) -> Any:
    return reply(asked, "approve", MAX)


@ONE_DATABASE
@pytest.mark.parametrize("attempt", [by_mallory, forged, by_max])
def test_a_reply_that_is_not_provably_the_managers_decides_nothing(
    question: Question,
    attempt: Callable[[Question], Any],
) -> None:
    for _ in range(3):
        mail = attempt(question)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert "not provably" in mail.no_answer_reason
    (answer,) = told(question.shop)  # once, however often
    assert "use the link" in answer
    assert told(question.shop, MALLORY) == []


@ONE_DATABASE
@pytest.mark.parametrize("door", ["case", "confirm", "team", "approval", "support"])
def test_the_word_at_any_other_address_decides_nothing(question: Question, door: str) -> None:
    (row,) = question.shop.rows("SELECT * FROM conversations")
    tokens = {"case": row.reply_token, "confirm": row.confirm_token, "team": row.team_token}
    token = tokens.get(door, "abcdefghij234567abcd")
    to = "support@shop.example" if door == "support" else f"{door}+{token}@shop.example"
    request = ask(question)
    reply(question, "approve", to=to, in_reply_to=request.message_id)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT * FROM decisions") == []


@ONE_DATABASE
def test_no_reply_decides_on_a_request_that_reads_like_a_decision_and_it_says_so(
    question: Question,
) -> None:
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE inbound_mails SET new_text = 'My wish:\n\nApprove\n'"))
    assert "an answer to this mail cannot decide" in ask(question).text
    mail = reply(question, "Reject")
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert "Not decided" in mail.no_answer_reason or "Noted" in mail.no_answer_reason
    (answer,) = told(question.shop)
    assert "a reply cannot decide it. Please use the link" in answer
    assert "with the word" not in answer


@ONE_DATABASE
def test_a_note_of_a_colleague_leaves_the_next_manager_to_decide_by_reply(
    question: Question,
) -> None:
    reply(question, "My view:\nreject")
    request = ask(question, MAX)
    assert f"Note of {MONA}" in request.text
    question.shop.write("Reject", from_address=MAX, to=request.reply_to)
    assert (question.refund().status, question.refund().decided_by) == (RefundStatus.REJECTED, MAX)


@ONE_DATABASE
def test_an_answer_past_the_reply_address_is_no_customers_mail_and_shows_the_way_once(
    question: Question,
) -> None:
    conversations = question.shop.rows("SELECT 1 FROM conversations")
    request = ask(question)
    for _ in range(2):
        mail = reply(question, "approve", to="support@shop.example", in_reply_to=request.message_id)
    assert (mail.kind, mail.status, mail.conversation_id) == ("manager", "no_answer", None)
    assert question.shop.rows("SELECT 1 FROM conversations") == conversations
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    (answer,) = told(question.shop)
    assert "use the link in the mail that asked you" in answer
    (row,) = question.shop.rows("SELECT reply_to FROM outbound_mails WHERE purpose = 'notice'")
    assert row.reply_to == request.reply_to


@ONE_DATABASE
@pytest.mark.parametrize(
    "changes",
    [{"in_reply_to": None}, {"sender": MAX}, {"sender": MALLORY}, {"aligned": False}],
    ids=["about something else", "not asked", "a stranger", "forged"],
)
def test_whoever_answers_no_request_to_them_writes_as_a_customer(
    question: Question, changes: dict[str, Any]
) -> None:
    sent = {"to": "support@shop.example", "in_reply_to": ask(question).message_id} | changes
    mail = reply(question, "approve", **sent)
    assert (mail.kind, mail.status) == ("customer", "unanswered")
    assert told(question.shop) == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_replies_a_click_and_an_automatic_answer_at_once_are_all_heard(question: Question) -> None:
    """Whoever waits for the order or the refund must hold nothing that its holder goes on to need."""
    shop = question.shop
    to = {manager: ask(question, manager).reply_to for manager in (MONA, MAX)}
    away = {"subject": "Automatic reply: Refund", "from_address": MAX, "to": to[MAX]}
    letters_in = [
        letter("approve", from_address=MONA, to=to[MONA]),
        letter("reject", from_address=MAX, to=to[MAX]),
        letter("I am away until Monday.", **away),
    ]
    acts = [partial(shop.post_inbound, build_body(each)) for each in letters_in]
    acts.append(partial(question.press, question.token(), "approve"))
    with shop.live.database.transaction() as connection:
        for manager in to:
            since = shop.live.now()
            store.record_absence(connection, manager, "away", since, since + timedelta(days=1))
    with ThreadPoolExecutor(len(acts)) as pool:
        with shop.live.database.transaction() as connection:
            orders.lock(connection, "W2001")
            refunds.lock(connection, question.refund_id)
            answers = [pool.submit(act) for act in acts]
            wait_until(lambda: waiting(shop) == len(acts), 20, "all to wait")
            for manager in to:
                store.end_absence(connection, manager)
        assert [each.result().status_code for each in answers] == [200] * len(acts)
    assert len(shop.rows("SELECT * FROM decisions")) == 1


def waiting(shop: Harness) -> int:
    """Count who waits for a lock in PostgreSQL."""
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    return len(shop.rows(f"{query} AND wait_event_type = 'Lock'"))


@ONE_DATABASE
def test_a_second_reply_is_told_what_the_first_one_did(question: Question) -> None:
    reply(question, "approve")
    mail = reply(question, "reject")
    assert question.refund().status is RefundStatus.APPROVED
    assert "Nothing changed" in mail.no_answer_reason
    assert f"{MONA} approved it on" in told(question.shop)[-1]


@ONE_DATABASE
def test_a_reply_after_somebody_elses_decision_is_told_whose_it_was(question: Question) -> None:
    ask(question)
    question.decide("reject", manager=MAX)
    reply(question, "approve")
    assert question.refund().status is RefundStatus.REJECTED
    assert f"{MAX} rejected it on" in told(question.shop)[-1]


@ONE_DATABASE
def test_a_reply_that_comes_too_late_decides_nothing(question: Question) -> None:
    ask(question)
    late = question.shop.live.now() + timedelta(days=7, seconds=1)
    services.bind(replace(question.shop.live, now=lambda: late))
    reply(question, "approve", sent_at=late.isoformat())
    assert question.shop.rows("SELECT * FROM decisions") == []
    assert "The date passed at" in told(question.shop)[-1]


@ONE_DATABASE
def test_a_reply_cannot_approve_what_the_page_would_not(question: Question) -> None:
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE orders SET status = 'cancelled'"))
    mail = reply(question, "approve")
    assert "Not recorded" in mail.no_answer_reason
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert "This order was cancelled" in told(question.shop)[-1]
    reply(question, "reject")
    assert question.refund().status is RefundStatus.REJECTED


def ask_and_refund_elsewhere(question: Question) -> None:
    """Ask Mona; then 400 dollars are refunded elsewhere, and enough is left for what she was asked for."""
    desk = {"item_id": "D1", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"}
    paid = {"payment_id": "pay_W2001", "method": "card", "amount": "1999.00"}
    question.shop.stock(order("W2001", items=[desk], payments=[paid]))
    ask(question)
    refund_elsewhere(question, 400_00)


@pytest.mark.both_databases
def test_a_refund_elsewhere_since_the_mail_has_the_manager_look_at_the_page(
    question: Question,
) -> None:
    ask_and_refund_elsewhere(question)
    mail = reply(question, "approve")
    assert "Not recorded" in mail.no_answer_reason
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    (answer,) = told(question.shop)
    happened = "Something has happened since we asked you."
    assert f"{happened} $400.00 of this order was refunded elsewhere" in " ".join(answer.split())
    assert "Please use the link in the mail that asked you." in answer
    # Max is asked after it, so the mail to him counts it.
    assert "Already refunded or under way: $400.00" in ask(question, MAX).text
    reply(question, "approve", MAX, to=ask(question, MAX).reply_to)
    assert (question.refund().status, question.refund().decided_by) == (RefundStatus.APPROVED, MAX)


@pytest.mark.both_databases
def test_a_manager_whose_reminder_tells_of_a_refund_elsewhere_decides_by_reply(
    question: Question,
) -> None:
    ask_and_refund_elsewhere(question)
    live = question.shop.live
    then = live.now() + timedelta(seconds=live.waits.approval_reminder_seconds)
    services.bind(replace(live, now=lambda: then))
    with live.database.transaction() as connection:
        mailers.ask_managers(connection, question.refund())
    query = "SELECT * FROM outbound_mails WHERE to_address = :to AND dedup_key LIKE 'reminder:%'"
    (reminder,) = question.shop.rows(query, to=MONA)
    assert "Already refunded or under way: $400.00" in reminder.text
    reply(question, "approve", to=reminder.reply_to)
    assert question.refund().status is RefundStatus.APPROVED


def test_a_rejection_by_mail_needs_no_word_of_a_refund_elsewhere(question: Question) -> None:
    ask(question)
    refund_elsewhere(question, 400_00)
    reply(question, "reject")
    assert question.refund().status is RefundStatus.REJECTED


@ONE_DATABASE
def test_who_is_no_manager_any_more_decides_nothing_by_reply(question: Question) -> None:
    request = ask(question)
    shop = replace(question.shop.live.shop, manager_emails=(MAX,))
    services.bind(replace(question.shop.live, shop=shop))
    question.shop.write("approve", from_address=MONA, to=request.reply_to)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert told(question.shop) == []


@ONE_DATABASE
def test_with_four_eyes_two_people_reply_and_nobody_twice(dear: Question) -> None:
    max_first = ask(dear, MAX)  # asked to approve, as the next in line
    reply(dear, "approve")
    assert "A second manager has to approve it, too" in told(dear.shop)[-1]
    reply(dear, "approve")
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    dear.shop.write("approve", from_address=MAX, to=max_first.reply_to)
    assert "Yours would be the second decision" in told(dear.shop, MAX)[-1]
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    second = ask(dear, MAX)
    assert second.reply_to != max_first.reply_to
    dear.shop.write("approve", from_address=MAX, to=second.reply_to)
    assert (dear.refund().status, dear.refund().decided_by) == (RefundStatus.APPROVED, MAX)


@ONE_DATABASE
def test_a_manager_in_a_loop_is_not_answered_for_ever(question: Question) -> None:
    for number in range(22):
        reply(question, f"I am a machine, {number}.")
    assert len(told(question.shop)) == 20
    assert len(question.shop.rows("SELECT * FROM approval_notes")) == 22


# --- away ---------------------------------------------------------------------------------------


def away(asked: Question, **changes: Any) -> Any:
    words = {"subject": "Automatic reply: Refund", "to": ask(asked).reply_to} | changes
    return reply(asked, "I am away until Monday.", **words)


def requests(shop: Harness) -> dict[str, str | None]:
    rows = shop.rows("SELECT manager_email, skipped_why FROM approval_requests ORDER BY asked_at")
    return {row.manager_email: row.skipped_why for row in rows}


@pytest.mark.parametrize("by_reference", [False, True])
def test_an_automatic_answer_has_the_next_manager_asked_at_once(
    question: Question,
    by_reference: bool,
) -> None:
    if by_reference:
        mail = away(question, to="support@shop.example", in_reply_to=ask(question).message_id)
    else:
        mail = away(question)
    assert (mail.kind, mail.conversation_id) == ("auto_reply", None)
    assert "passed over" in mail.no_answer_reason
    assert requests(question.shop) == {MONA: "an automatic answer came from them", MAX: None}
    (request,) = question.shop.rows(
        "SELECT text FROM outbound_mails WHERE to_address = :to", to=MAX
    )
    assert f"{MONA} on" in request.text
    assert "not waited for: an automatic answer" in request.text
    assert told(question.shop) == []  # nobody answers a machine
    away(question)
    assert (
        len(question.shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :to", to=MAX)) == 1
    )
    assert question.decide().status_code == 200  # her link works as before
    assert question.refund().decided_by == MONA


@ONE_DATABASE
@pytest.mark.parametrize(
    ("sender", "changes"),
    [(TESS, {}), (ADA, {}), (MONA, {"to": "support@shop.example"})],
    ids=["a colleague", "a customer", "about something else"],
)
def test_an_automatic_answer_of_somebody_else_skips_nobody(
    question: Question,
    sender: str,
    changes: dict[str, Any],
) -> None:
    away(question, sender=sender, **changes)
    assert requests(question.shop) == {MONA: None}


def absent(shop: Harness) -> list[str]:
    return [row.manager_email for row in shop.rows("SELECT manager_email FROM manager_absences")]


@ONE_DATABASE
@pytest.mark.parametrize("back_by", ["page", "reply"])
def test_an_absence_ends_when_the_manager_is_heard_of(question: Question, back_by: str) -> None:
    away(question)
    assert absent(question.shop) == [MONA]
    if back_by == "page":
        question.decide()
    else:
        reply(question, "I will look at it tonight.")
    assert absent(question.shop) == []


@ONE_DATABASE
def test_a_stored_mail_holds_no_link_by_which_others_decide(question: Question) -> None:
    request = ask(question)
    mail = reply(question, f"What is this?\n\n{request.text}")
    token = question.link().rpartition("/")[2]
    for text in (mail.body, mail.new_text, question.shop.client.get(question.link(MAX)).text):
        assert token not in text
    assert "/approvals/…" in mail.body


@ONE_DATABASE
@pytest.mark.parametrize("text", ["Approve", "It is for a good customer."])
def test_a_reply_about_an_own_order_neither_decides_nor_is_noted(
    question: Question, text: str
) -> None:
    request = ask(question)
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE orders SET customer_email = :owner"), {"owner": MONA})
    question.shop.write(text, to=request.reply_to, from_address=MONA)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT 1 FROM decisions") == []
    assert question.shop.rows("SELECT 1 FROM approval_notes") == []
    (answer,) = told(question.shop)
    assert "This is your own order; somebody else decides on it." in answer
    assert "use the link" not in answer
