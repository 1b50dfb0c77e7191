"""The mails that one run works on together, and what it does with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.domain.mail.conversation import (
    LOOP_WINDOW,
    Conversation,
    ConversationStatus,
    is_loop,
)
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import InboundMail, MailKind, Purpose
from mailagent.engine import mail_of
from mailagent.mailers import Reader
from mailagent.store import audit
from mailagent.store.database import END_OF_TIME, Row
from mailagent.store.mail import arrivals, conversations, drafts, inbound, outbound
from mailagent.workflows.steps.recording import step


class Batch(TypedDict):
    """The mails that one run works on together. Either all of their senders are proven or none.

    `verified`: whether they are. `task`: `answer` them, `pass_on` to people, `forward` the team's words, or
    `stop` a loop. `taken_at` (ISO 8601): the model is not shown mail that came or was written later.
    `looks_up`: the order source has to be asked for the customer's orders.
    """

    conversation_id: str
    mail_ids: list[str]
    verified: bool
    task: str
    taken_at: NotRequired[str]
    looks_up: NotRequired[bool]


@step
def take_batch(conversation_id: str) -> Batch | None:
    """Take the unanswered mail of a conversation for this run. Returns it and what to do with it; None if there
    is none. Mail of senders that are proven has other runs than mail of those that are not.

    This writes: drafts that answer this mail are taken back, the customer's language is recorded, and a
    conversation that the loop guard stopped is given back to the agent.
    """
    live = services.current()
    now = live.now()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        waiting = inbound.list_unanswered(connection, conversation_id)
        first = _first(connection, waiting)
        if first is None:
            return None
        task = _task(connection, conversation, first)
        if task == "answer" and conversation.stopped_by_loop_guard:
            conversations.give_back(connection, conversation_id)
            audit.record(connection, live.now(), audit.CLOCK, "loop guard reset", conversation_id)
        # A forged mail must not be answered along with an honest one as if both were honest.
        together = [
            mail
            for mail in waiting
            if (mail.kind, mail.identity.proven) == (first.kind, first.identity.proven)
        ]
        if any(mail.draft_id for mail in together):
            together = _take_drafts_back(connection, together)
        if not together:
            return None
        _record_language(connection, conversation, together)
    batch = Batch(
        conversation_id=conversation_id,
        mail_ids=[mail.mail_id for mail in together],
        verified=first.identity.proven,
        task=task,
        taken_at=now.isoformat(),
    )
    if live.order_source is not None and batch["verified"]:
        batch["looks_up"] = True
    return batch


def _first(connection: sa.Connection, waiting: Sequence[InboundMail]) -> InboundMail | None:
    """Return the mail to begin with: the one that this run was enqueued for, else the oldest one that
    is proven or unproven like it. Other mail has runs of its own, which may be executing now."""
    awaiting = [mail for mail in waiting if mail.awaits_agent]
    own_id = mail_of(DBOS.workflow_id) if DBOS.workflow_id else None
    own = next((mail for mail in waiting if mail.mail_id == own_id), None)
    if own is None and own_id is not None:
        own = inbound.find(connection, own_id)
    if own is not None:
        awaiting = [mail for mail in awaiting if mail.identity.proven == own.identity.proven]
        awaiting.sort(key=lambda mail: mail.mail_id != own.mail_id)
    return awaiting[0] if awaiting else None


def _take_drafts_back(connection: sa.Connection, mails: Sequence[InboundMail]) -> list[InboundMail]:
    """Take back the drafts that answer these mails, because the customer has written again. Return the mails
    that still await an answer: a person may just have sent a draft."""
    now = services.current().now()
    waiting = sorted({mail.draft_id for mail in mails if mail.draft_id})
    for draft_id in drafts.supersede(connection, waiting, audit.AGENT, now, DBOS.workflow_id):
        audit.record(connection, now, audit.AGENT, "draft superseded", draft_id)
    found = inbound.list_by_id(connection, [mail.mail_id for mail in mails])
    return [mail for mail in found if mail.awaits_agent]


def _record_language(
    connection: sa.Connection, conversation: Conversation, mails: Sequence[InboundMail]
) -> None:
    """Record the customer's language: that of the newest mail whose language can be told."""
    written = (mail.new_text for mail in reversed(mails) if mail.kind is MailKind.CUSTOMER)
    found = next((language for text in written if (language := find_language(text))), None)
    if found not in (None, conversation.language):
        conversations.record_language(connection, conversation.conversation_id, found)


def _task(connection: sa.Connection, conversation: Conversation, mail: InboundMail) -> str:
    if mail.kind is MailKind.TEAM:
        return "forward"
    if (
        conversation.status is ConversationStatus.HANDED_OVER
        and not conversation.stopped_by_loop_guard
    ):
        return "pass_on"
    if is_answered_too_often(connection, conversation, mail.identity.proven):
        return "stop"
    return "pass_on" if _people_answer(connection, conversation) else "answer"


def is_answered_too_often(
    connection: sa.Connection, conversation: Conversation, proven: bool
) -> bool:
    """Return whether so many automatic answers went out lately that a machine may be answering them.

    Only answers to mail like this one count, proven or not. The count begins anew when the team gives the
    conversation back to the agent.
    """
    conversation_id, address = conversation.conversation_id, conversation.customer_email
    since = services.current().now() - LOOP_WINDOW
    answers = arrivals.list_automatic(connection, since, proven, conversation_id, address)
    if not _is_loop(answers):
        return False
    given_back_at = audit.latest_at(connection, conversation_id, audit.GIVEN_BACK)
    if given_back_at is None:
        return True
    return _is_loop([answer for answer in answers if answer.at >= given_back_at])


def _is_loop(answers: Sequence[Row]) -> bool:
    limits = services.current().limits
    in_thread = [answer.at for answer in answers if answer.in_thread]
    to_sender = [answer.at for answer in answers if not answer.in_thread]
    return is_loop(in_thread, limits.answers_per_hour) or is_loop(
        to_sender, limits.answers_to_sender_per_hour
    )


def _people_answer(connection: sa.Connection, conversation: Conversation) -> bool:
    """Return whether the team has answered since the loop guard stopped the agent: then the conversation stays
    theirs."""
    if not conversation.stopped_by_loop_guard or conversation.handed_over_at is None:
        return False
    conversation_id = conversation.conversation_id
    answered_at = outbound.latest_at(connection, conversation_id, Purpose.TEAM_REPLY)
    return answered_at is not None and answered_at >= conversation.handed_over_at


def batch_reader(
    connection: sa.Connection, batch: Batch, conversation: Conversation | None = None
) -> Reader:
    """Return a reader of the facts that the batch's customer may be told. `conversation`: loaded if None."""
    known = conversation or conversations.load(connection, batch["conversation_id"])
    return Reader(connection, known, batch["mail_ids"], batch["verified"])


def taken_at(batch: Batch) -> datetime:
    """Return when a batch was taken; the end of time if it does not say."""
    at = batch.get("taken_at")
    return datetime.fromisoformat(at) if at else END_OF_TIME


def is_waiting(connection: sa.Connection, mail_ids: Sequence[str]) -> bool:
    """Return whether every mail of a batch still waits for the agent; in a replayed run one may not."""
    return all(mail.awaits_agent for mail in inbound.list_by_id(connection, mail_ids))


@step
def put_off(batch: Batch) -> int:
    """Record that the model, or the order source, could not be asked: the sweep enqueues these mails again.
    Returns how many."""
    with services.current().database.transaction() as connection:
        return inbound.put_off(
            connection, batch["conversation_id"], batch["mail_ids"], DBOS.workflow_id
        )
