"""Handing a conversation to people, and what they write back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import handback, mailers, services
from mailagent.domain.mail.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail.message import InboundMail, MailStatus, Purpose
from mailagent.domain.mail.reply_commands import TeamCommand, decide_team_command
from mailagent.domain.operations.access import Permission, permissions_of
from mailagent.store import audit
from mailagent.store.mail import assignments, conversations, correspondence, inbound, outbound
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.reply import answers_of
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.texts import words_of


@step
def hand_over(batch: Batch, move: Mapping[str, Any]) -> list[str]:
    """Give the conversation to people: tell the customer, and the team with the whole case.

    `move` has the name of a HandOverReason as `reason` and the model's `summary`, perhaps empty. A replay
    that comes when nothing waits any more changes nothing: people may have given the conversation back.
    Raises NeedsOperatorError as `words.words_of` does.
    """
    live = services.current()
    summary = str(words_of(move).get("summary") or "")
    why, incident = HandOverReason[move["reason"]], f"hand_over:{batch['mail_ids'][-1]}"
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        if not _waiting(mails):
            return outbound_ids + outbound.list_by_subject(
                connection, conversation.conversation_id, incident
            )
        conversations.hand_over(connection, conversation.conversation_id, why.value, live.now())
        untrue = why is HandOverReason.REPLY_NOT_TRUE
        told = mailers.write_handed_over(connection, conversation, mails, untrue)
        inbound.answer(connection, batch["mail_ids"], told)
        outbound_ids.append(told)
        audit.record(
            connection,
            live.now(),
            audit.AGENT,
            "conversation handed over",
            conversation.conversation_id,
            {"why": why.value},
        )
        outbound_ids += mailers.write_to_team(
            connection, conversation, why.value, summary or None, incident
        )
    return outbound_ids


def _waiting(mails: Sequence[InboundMail]) -> list[InboundMail]:
    """Return the mails that nobody has dealt with: a replayed step is late for the others."""
    return [mail for mail in mails if mail.awaits_agent]


@step
def forward_team_replies(batch: Batch) -> list[str]:
    """Pass the team's answers on to the customer, or the conversation back to the agent.

    What is neither goes nowhere, and the team is told.
    """
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        for mail in mails:
            if mail.status is not MailStatus.UNANSWERED:
                outbound_ids += outbound.list_by_subject(
                    connection, conversation.conversation_id, _held(mail)
                )
                continue
            action, written = _act_on_team_command(connection, conversation, mail)
            outbound_ids += written
            audit.record(
                connection, live.now(), mail.from_address, action, conversation.conversation_id
            )
    return outbound_ids


def _act_on_team_command(
    connection: sa.Connection, conversation: Conversation, mail: InboundMail
) -> tuple[str, list[str]]:
    """Do what a team member's mail means; return the action for the audit trail, and what was written."""
    conversation_id = conversation.conversation_id
    meant = decide_team_command(mail.new_text, mail.subject, _subjects(connection, conversation))
    if meant is TeamCommand.FOR_CUSTOMER:
        outbound_id = mailers.write_team_reply(connection, conversation, mail)
        inbound.answer(connection, [mail.mail_id], outbound_id)
        return "customer answered", [outbound_id]
    inbound.leave_unanswered(connection, [mail.mail_id], meant.value)
    if meant is TeamCommand.FOR_AGENT:
        handback.give_back(connection, conversation_id)
        return audit.GIVEN_BACK, []
    told = mailers.write_notice(
        connection,
        _notice_of_held(conversation, mail, meant),
        services.current().shop.team_emails,
        conversation_id,
    )
    return "team reply held", told


def _subjects(connection: sa.Connection, conversation: Conversation) -> list[str]:
    written = correspondence.list_of_conversation(connection, conversation.conversation_id)
    to_team = [row.subject for row in written if row.purpose == Purpose.HAND_OVER.value]
    return [conversation.subject, *to_team]


def _held(mail: InboundMail) -> str:
    return f"held:{mail.mail_id}"


def _notice_of_held(
    conversation: Conversation, mail: InboundMail, meant: TeamCommand
) -> mailers.Notice:
    return mailers.Notice(
        _held(mail),
        f"A reply of {mail.from_address} did not go to the customer",
        [
            f"Subject: {mail.subject}",
            f"Why: {meant.value}",
            f"Conversation: {conversation.conversation_id}, {conversation.subject}",
            "To answer the customer, reply to the mail with the case and leave its subject as it is.",
            'To give the conversation back, reply with "Back to the agent" and nothing else.',
        ],
    )


@step
def pass_on_to_people(batch: Batch) -> list[str]:
    """Mail the team what came in for a conversation that people look after.

    If they have given it back since, the mail waits for the agent, who was enqueued for.
    """
    live = services.current()
    incident = f"passed_on:{batch['mail_ids'][-1]}"
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        waiting = _waiting(inbound.list_by_id(connection, batch["mail_ids"]))
        if not waiting or conversation.status is ConversationStatus.OPEN:
            return outbound.list_by_subject(connection, conversation.conversation_id, incident)
        inbound.leave_unanswered(connection, batch["mail_ids"], assignments.PEOPLE_ANSWER)
        return mailers.write_to_team(
            connection,
            conversation,
            "the customer wrote again",
            None,
            incident,
            _readers(conversation),
        )


def _readers(conversation: Conversation) -> tuple[str, ...]:
    """Return who reads on: whoever took the conversation, or everybody if that one has left."""
    shop = services.current().shop
    owner = conversation.owner_email
    if owner and Permission.ANSWER in permissions_of(owner, shop):
        return (owner,)
    return shop.team_emails
