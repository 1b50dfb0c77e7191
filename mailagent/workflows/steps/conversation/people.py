"""The steps that give a conversation to people, and that act on what people write back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from mailagent import handback, mailers, services
from mailagent.adapters.html.text import render_text
from mailagent.adapters.mime.reply_text import may_lose_words, words_to_pass_on
from mailagent.domain.mail.conversation import (
    HOUR,
    Conversation,
    ConversationStatus,
    HandOverReason,
)
from mailagent.domain.mail.message import InboundMail, MailStatus, Purpose, is_photo
from mailagent.domain.mail.redaction import inert, without_keys
from mailagent.domain.mail.reply_commands import (
    TeamCommand,
    decide_team_command,
    is_sent_on_purpose,
)
from mailagent.domain.operations.access import Permission, permissions_of
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import assignments, conversations, inbound, outbound, throttled
from mailagent.workflows.steps.conversation.batch import Batch, is_answered_too_often, taken_at
from mailagent.workflows.steps.conversation.model_call import RecordedMove
from mailagent.workflows.steps.conversation.reply import answers_of
from mailagent.workflows.steps.conversation.texts import read_text
from mailagent.workflows.steps.recording import step


@step
def hand_over(batch: Batch, move: RecordedMove) -> list[str]:
    """Give the conversation to people: tell the customer, and the team with the whole case. Returns the mails
    to send.

    A replay changes nothing when no mail waits any more, or when people have given the conversation back since
    the batch was taken: another run is enqueued for its mail. Raises NeedsOperatorError when the summary was
    deleted."""
    live = services.current()
    why = HandOverReason[move["reason"]]
    subject = f"{assignments.HAND_OVER}:{batch['mail_ids'][-1]}"
    with live.database.transaction() as connection:
        summary = read_text(connection, move).get("summary")
        conversation = conversations.lock(connection, batch["conversation_id"])
        conversation_id = conversation.conversation_id
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        given_back_at = audit.latest_at(connection, conversation_id, audit.GIVEN_BACK)
        is_others = given_back_at is not None and taken_at(batch) < given_back_at
        if is_others or not any(mail.awaits_agent for mail in mails):
            written = outbound.list_by_subject(connection, conversation_id, subject)
            return list(dict.fromkeys([*outbound_ids, *written]))
        conversations.hand_over(connection, conversation_id, why.value, live.now())
        untrue = why is HandOverReason.REPLY_NOT_TRUE
        key = _key_of_case(subject, given_back_at)
        told = mailers.write_handed_over(connection, conversation, mails, untrue, key)
        inbound.answer(connection, batch["mail_ids"], told)
        details = {"why": why.value}
        audit.record(
            connection,
            live.now(),
            audit.AGENT,
            "conversation handed over",
            conversation_id,
            details,
        )
        to_team = mailers.write_to_team(connection, conversation, why.value, summary or None, key)
    return [*outbound_ids, told, *to_team]


def _key_of_case(subject: str, given_back_at: datetime | None) -> str:
    # Mail that people gave back is a new case when it is theirs again.
    return f"{subject}:{given_back_at:%Y-%m-%dT%H:%M:%S.%f}" if given_back_at else subject


# --- what the team writes ---------------------------------------------------------------------------


@step
def forward_team_replies(batch: Batch) -> list[str]:
    """Forward the team's answers to the customer, or give the conversation back to the agent. Hold
    a mail that does neither, and tell the team. Returns the ids of the mails to send."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        conversation_id = conversation.conversation_id
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        outbound_ids = answers_of(mails)
        for mail in mails:
            if mail.status is not MailStatus.UNANSWERED:
                outbound_ids += outbound.list_by_subject(
                    connection, conversation_id, f"held:{mail.mail_id}"
                )
                continue
            action, written = _act_on_team_command(connection, conversation, mail)
            outbound_ids += written
            if action is not None:
                audit.record(connection, live.now(), mail.from_address, action, conversation_id)
    return outbound_ids


def _act_on_team_command(
    connection: sa.Connection, conversation: Conversation, mail: InboundMail
) -> tuple[audit.Action | None, list[str]]:
    """Do what a team member's mail asks for. Return the action for the audit log, None if it changed nothing,
    and the ids of the mails written."""
    conversation_id = conversation.conversation_id
    written = outbound.list_of_conversation(connection, conversation_id)
    to_team = [row.subject for row in written if row.purpose == Purpose.HAND_OVER.value]
    # Not `new_text`: if nothing is new, that is the quoted case, which is internal.
    internal = _list_internal(written, conversation.customer_email)
    words = words_to_pass_on(mail.body, internal, mail.subject)
    subjects = [conversation.subject, *to_team]
    known = [text for row in written for text in (row.text, render_text(row.html or "").text)]
    is_cut = may_lose_words(mail.body, known)
    usual = assignments.list_usual_pictures(connection, mail.from_address, conversation_id)
    of_signature = [each for each in mail.attachments if assignments.without_name(each) in usual]
    read = partial(
        decide_team_command, words, mail.subject, subjects, mail.attachments, is_cut, mail.body
    )
    meant = read(of_signature)
    if meant is TeamCommand.FOR_CUSTOMER:
        outbound_id = mailers.write_team_reply(connection, conversation, mail, words)
        inbound.answer(connection, [mail.mail_id], outbound_id)
        if not assignments.has_unseen(connection, conversation):
            now = services.current().now()
            conversations.record_answered(connection, conversation_id, Purpose.TEAM_REPLY, now)
        return "customer answered", [outbound_id]
    inbound.leave_unanswered(connection, [mail.mail_id], meant.value)
    if meant is TeamCommand.FOR_AGENT:
        return audit.GIVEN_BACK if handback.give_back(connection, conversation_id) else None, []
    is_held_once = meant is TeamCommand.HELD_FILES and read(mail.attachments) is not meant
    notice = _about_held(conversation, mail, meant, is_held_once)
    team = services.current().shop.team_emails
    return "team reply held", mailers.write_notice(connection, notice, team, conversation_id)


_OF_SIGNATURE = (
    "If it is only the picture of your signature, it will not hold up your answers in other"
    " conversations again."
)


def _about_held(
    conversation: Conversation, mail: InboundMail, why: TeamCommand, is_held_once: bool
) -> mailers.Notice:
    """Say why a team member's mail did not go to the customer, and what to do. `is_held_once`: it would not be
    held if its pictures belonged to a signature."""
    is_of_files = why is TeamCommand.HELD_FILES
    files = ", ".join(
        each.name
        for each in mail.attachments
        if is_sent_on_purpose(each) or (is_of_files and is_photo(each))
    )
    page = f"{services.current().shop.public_url}/ops/conversations/{conversation.conversation_id}"
    return mailers.Notice(
        f"held:{mail.mail_id}",
        f"A reply of {mail.from_address} did not go to the customer",
        [
            f"Subject: {inert(mail.subject)}",
            f"Why: {why.value}",
            *([f"Files: {files}"] if files else []),
            *([_OF_SIGNATURE] if is_held_once else []),
            f"Conversation: {conversation.conversation_id}, {inert(conversation.subject)}",
            "To answer the customer, reply to the mail with the case: write above what your program quotes of"
            " it, and leave its subject as it is.",
            f"To answer with files: {page}",
            'To give the conversation back, reply with "Back to the agent" and nothing else.',
        ],
    )


def _list_internal(written: Sequence[Row], customer: str) -> list[str]:
    """Return what we wrote to our own people in a conversation, without links that log in, and without lines
    that the customer got: a case quotes the team's answers, and people use sentences and signatures again."""
    told = {
        line.strip()
        for row in written
        if row.to_address == customer
        for line in row.text.splitlines()
    }
    return [
        "\n".join(
            line
            for line in without_keys(row.text).splitlines()
            if line.lstrip("> ").rstrip() not in told
        )
        for row in written
        if row.purpose in (Purpose.HAND_OVER.value, Purpose.NOTICE.value)
    ]


@step
def pass_on_to_people(batch: Batch) -> list[str]:
    """Mail the team what the customer wrote in a conversation that people answer. Returns the ids of the mails
    to send.

    If people have given it back since, the mail waits for the agent: a run for it is enqueued already.
    """
    subject = f"passed_on:{batch['mail_ids'][-1]}"
    with services.current().database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        is_open = conversation.status is ConversationStatus.OPEN
        if is_open or not any(mail.awaits_agent for mail in mails):
            return outbound.list_by_subject(connection, conversation.conversation_id, subject)
        inbound.leave_unanswered(connection, batch["mail_ids"], assignments.PEOPLE_ANSWER)
        given_back_at = audit.latest_at(connection, conversation.conversation_id, audit.GIVEN_BACK)
        key = _key_of_case(subject, given_back_at)
        why, readers = "the customer wrote again", _readers(conversation)
        return mailers.write_to_team(connection, conversation, why, None, key, readers)


def _readers(conversation: Conversation) -> Sequence[str]:
    """Return the person who took the conversation, or the whole team if that person has left."""
    shop, owner = services.current().shop, conversation.owner_email
    if owner and Permission.ANSWER in permissions_of(owner, shop):
        return (owner,)
    return shop.team_emails


# --- the loop guard ---------------------------------------------------------------------------------


@step
def stop_loop(batch: Batch) -> list[str]:
    """Give mail to people because the agent answered too often. Returns the mails to send.

    A replay changes nothing when no mail waits any more, or when the loop guard is no longer tripped: people
    may have given the conversation back, and the mail with it."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        conversation_id = conversation.conversation_id
        is_stopped = is_answered_too_often(
            connection, conversation, batch["verified"]
        ) and throttled.throttle_by_loop_guard(connection, batch["mail_ids"])
        if not is_stopped:  # an earlier try of this step may have written mails
            return [
                outbound_id
                for mail_id in batch["mail_ids"]
                for outbound_id in outbound.list_by_subject(
                    connection, conversation_id, f"loop:{mail_id}"
                )
            ]
        if not conversation.stopped_by_loop_guard:
            why = HandOverReason.LOOP_DETECTED.value
            conversations.hand_over(connection, conversation_id, why, live.now())
            audit.record(connection, live.now(), audit.CLOCK, "loop detected", conversation_id)
        return write_loop_case(connection, conversation)


def write_loop_case(connection: sa.Connection, conversation: Conversation) -> list[str]:
    """Hand over to the team, in one mail, what the loop guard stopped; at most once an hour for
    each conversation. Returns the ids of the mails to send."""
    live, conversation_id = services.current(), conversation.conversation_id
    latest = outbound.latest_at(connection, conversation_id, Purpose.HAND_OVER)
    if latest is not None and live.now() - latest < HOUR:
        return []
    mail_ids = throttled.close_throttled_by_loop_guard(connection, conversation_id)
    if not mail_ids:
        return []
    why = f"{HandOverReason.LOOP_DETECTED.value} (mails left unanswered: {len(mail_ids)})"
    return mailers.write_to_team(connection, conversation, why, None, f"loop:{mail_ids[-1]}")
