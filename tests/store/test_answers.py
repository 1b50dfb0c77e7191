"""What is recorded of an answer is the same on both databases."""

from __future__ import annotations

from dataclasses import replace

from mailagent.domain.mail import OutboundMail, Purpose
from mailagent.store import answers, outbox
from tests.stage import Stage

QUESTION = "What is the status of my order W1001?"

REPLY = OutboundMail(
    outbound_id="",
    purpose=Purpose.REPLY,
    to_address="ada@example.com",
    from_address="support@shop.example",
    subject="Re: order",
    text="It is on its way.",
    html="<p>It is on its way.</p>",
    message_id="",
)


def test_an_answer_is_recorded_with_its_cost_and_its_mails(shop: Stage) -> None:
    for words in (QUESTION, "Please."):
        shop.write(words)
    (thread, *_) = shop.rows("SELECT conversation_id FROM conversations ORDER BY opened_at")
    mail_ids = [
        row.mail_id for row in shop.rows("SELECT mail_id FROM inbound_mails ORDER BY received_at")
    ]
    now = shop.live.now()
    for outbound_id in ("outbound-1", "outbound-2"):  # the second finds nothing left to answer
        with shop.live.database.transaction() as connection:
            reply = replace(REPLY, outbound_id=outbound_id, message_id=outbound_id)
            outbox.record(connection, reply, outbound_id, now)
            answers.record(
                connection, thread.conversation_id, mail_ids, outbound_id, (2, 1234), now
            )
    assert {
        (row.status, row.answered_by)
        for row in shop.rows("SELECT status, answered_by FROM inbound_mails")
    } == {("answered", "outbound-1")}
    (conversation,) = shop.rows(
        "SELECT subject, model_turns, model_tokens FROM conversations"
        f" WHERE conversation_id = '{thread.conversation_id}'"
    )
    assert (conversation.model_turns, conversation.model_tokens) == (4, 2468)
    acts = shop.rows("SELECT actor, subject FROM audit WHERE action = 'mail answered'")
    assert [(act.actor, act.subject) for act in acts] == [("agent", mail_ids[-1])] * 2
