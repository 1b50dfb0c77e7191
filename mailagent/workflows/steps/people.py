"""Handing a conversation to people, and what they write back."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent import services
from mailagent.domain.conversation import HandOverReason
from mailagent.domain.mail import InboundMail, MailStatus
from mailagent.store import audit, conversations, mailbox, outbox
from mailagent.workflows.steps import letters
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.reply import answers_of


@step
def hand_over(batch: Batch, reason: str, summary: str) -> list[str]:
    """Give the conversation to people: tell the customer, and the team with the whole case.

    `reason` is the name of a HandOverReason; `summary` is the model's, or empty. A replay that comes
    when nothing waits any more changes nothing: people may have given the conversation back.
    """
    live = services.current()
    why, matter = HandOverReason[reason], f"hand_over:{batch['mail_ids'][-1]}"
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        if not _waiting(mails):
            return outbound_ids + outbox.list_of_matter(
                connection, conversation.conversation_id, matter
            )
        conversations.hand_over(connection, conversation.conversation_id, why.value, live.now())
        untrue = why is HandOverReason.REPLY_NOT_TRUE
        told = letters.write_handed_over(connection, conversation, mails, untrue)
        mailbox.answer(connection, batch["mail_ids"], told)
        outbound_ids.append(told)
        audit.record(
            connection,
            live.now(),
            audit.AGENT,
            "conversation handed over",
            conversation.conversation_id,
            {"why": why.value},
        )
        outbound_ids += letters.write_to_team(
            connection, conversation, why.value, summary or None, matter
        )
    return outbound_ids


def _waiting(mails: Sequence[InboundMail]) -> list[InboundMail]:
    """Return the mails that nobody has dealt with: a replayed step is late for the others."""
    return [mail for mail in mails if mail.status is MailStatus.UNANSWERED]


# What a team member writes, and nothing else, to give a conversation back.
BACK_TO_AGENT = frozenset({"agent", "@agent", "back to the agent", "back to agent"})


@step
def forward_team_replies(batch: Batch) -> list[str]:
    """Pass the team's answers on to the customer, or the conversation back to the agent."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        for mail in _waiting(mails):
            if mail.new_text.strip().strip(".!").lower() in BACK_TO_AGENT:
                conversations.give_back(connection, conversation.conversation_id)
                mailbox.leave_unanswered(connection, [mail.mail_id], "gave it back to the agent")
                action = audit.GIVEN_BACK
            else:
                outbound_id = letters.write_team_reply(connection, conversation, mail)
                mailbox.answer(connection, [mail.mail_id], outbound_id)
                outbound_ids.append(outbound_id)
                action = "customer answered"
            audit.record(
                connection, live.now(), mail.from_address, action, conversation.conversation_id
            )
    return outbound_ids


@step
def pass_on_to_people(batch: Batch) -> list[str]:
    """Mail the team what came in for a conversation that people look after."""
    live = services.current()
    matter = f"passed_on:{batch['mail_ids'][-1]}"
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        if not _waiting(mailbox.list_by_id(connection, batch["mail_ids"])):
            return outbox.list_of_matter(connection, conversation.conversation_id, matter)
        mailbox.leave_unanswered(
            connection, batch["mail_ids"], "people look after this conversation"
        )
        return letters.write_to_team(
            connection, conversation, "the customer wrote again", None, matter
        )
