"""The mails that one run works on together, what is to be done with them, and which tools they allow."""

from __future__ import annotations

from collections.abc import Sequence
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
from mailagent.store import audit
from mailagent.store.mail import arrivals, conversations, correspondence, drafts, inbound
from mailagent.workflows.steps.recording import step


class Batch(TypedDict):
    """The mails that one run works on together; either all of their senders are proven or none.

    `task`: `answer` them, `pass_on` to people, `forward` the team's words, or `stop` a loop. `taken_at`, in
    the words of ISO 8601: what came and was written later is no history of theirs. Runs of older releases
    have recorded none.
    """

    conversation_id: str
    mail_ids: list[str]
    verified: bool
    task: str
    taken_at: NotRequired[str]


@step
def take_batch(conversation_id: str) -> Batch | None:
    """Find what is unanswered in a thread; None when nothing is."""
    taken_at = services.current().now()
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, conversation_id)
        waiting = inbound.list_unanswered(connection, conversation_id)
        first = next((mail for mail in waiting if mail.awaits_agent), None)
        if first is None:
            return None
        task = _task(connection, conversation, first)
    if task == "answer" and conversation.stopped_by_loop_guard:
        _open_again(conversation_id)
    # A forged mail must not be answered along with an honest one as if both were honest.
    together = [
        mail
        for mail in waiting
        if (mail.kind, mail.identity.proven) == (first.kind, first.identity.proven)
    ]
    if any(mail.draft_id for mail in together):
        together = _take_drafts_back(conversation_id, together)
    if not together:
        return None
    _note_language(conversation, together)
    return Batch(
        conversation_id=conversation_id,
        mail_ids=[mail.mail_id for mail in together],
        verified=first.identity.proven,
        task=task,
        taken_at=taken_at.isoformat(),
    )


def _take_drafts_back(conversation_id: str, mails: Sequence[InboundMail]) -> list[InboundMail]:
    """Take back the drafts that wait for these mails, because the customer has written again; return
    the mails that are still to be answered: somebody may have sent a draft at this moment."""
    live = services.current()
    with live.database.transaction() as connection:
        conversations.lock(connection, conversation_id)
        waiting = sorted({mail.draft_id for mail in mails if mail.draft_id})
        run_id = DBOS.workflow_id
        for draft_id in drafts.supersede(connection, waiting, audit.AGENT, live.now(), run_id):
            audit.record(connection, live.now(), audit.AGENT, "draft superseded", draft_id)
        found = inbound.list_by_id(connection, [mail.mail_id for mail in mails])
        return [mail for mail in found if mail.awaits_agent]


def _note_language(conversation: Conversation, mails: Sequence[InboundMail]) -> None:
    """Record in which language the customer writes, by the newest of `mails` that tells."""
    written = (mail.new_text for mail in reversed(mails) if mail.kind is MailKind.CUSTOMER)
    found = next((language for text in written if (language := find_language(text))), None)
    if found not in (None, conversation.language):
        with services.current().database.transaction() as connection:
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
    """Whether so many automatic answers went out lately that a machine may be answering them.

    Only what was written in answer to mail like this one counts, proven or not. Whoever of the team
    gives the conversation back to the agent begins the count anew.
    """
    live = services.current()
    conversation_id, address = conversation.conversation_id, conversation.customer_email
    since = live.now() - LOOP_WINDOW
    answers = arrivals.list_automatic(connection, since, proven, conversation_id, address)
    if not _trip(answers):
        return False
    given_back_at = audit.latest_at(connection, conversation_id, audit.GIVEN_BACK)
    if given_back_at is None:
        return True
    return _trip([answer for answer in answers if answer.at >= given_back_at])


def _trip(answers: Sequence[arrivals.Automatic]) -> bool:
    limits = services.current().limits
    in_thread = [answer.at for answer in answers if answer.in_thread]
    to_sender = [answer.at for answer in answers if not answer.in_thread]
    return is_loop(in_thread, limits.answers_per_hour) or is_loop(
        to_sender, limits.answers_to_sender_per_hour
    )


def _people_answer(connection: sa.Connection, conversation: Conversation) -> bool:
    """Whether somebody of the team took up what the loop guard had stopped: then it stays theirs."""
    if not conversation.stopped_by_loop_guard or conversation.handed_over_at is None:
        return False
    conversation_id = conversation.conversation_id
    answered_at = correspondence.latest_at(connection, conversation_id, Purpose.TEAM_REPLY)
    return answered_at is not None and answered_at >= conversation.handed_over_at


def _open_again(conversation_id: str) -> None:
    """Record that the agent looks after a thread again whose loop guard has cooled down, or never blew for
    mail like this."""
    live = services.current()
    with live.database.transaction() as connection:
        if conversations.lock(connection, conversation_id).stopped_by_loop_guard:
            conversations.give_back(connection, conversation_id)
            audit.record(connection, live.now(), audit.CLOCK, "loop guard reset", conversation_id)


# --- tool rights ----------------------------------------------------------------------------------


def customer_of(connection: sa.Connection, batch: Batch) -> str:
    """Return the address whose orders the tools reach."""
    return conversations.load_address(connection, batch["conversation_id"])


def is_waiting(connection: sa.Connection, batch: Batch) -> bool:
    """Say whether the batch still waits for an answer: a replayed run may be late with its wishes.

    As for a reply: where people took one of the mails, or one has a draft that waits, the agent is
    through with all of them.
    """
    mails = inbound.list_by_id(connection, batch["mail_ids"])
    return all(mail.awaits_agent for mail in mails)
