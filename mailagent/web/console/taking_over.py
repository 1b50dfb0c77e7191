"""What people do with a conversation: take it, answer in it, give it back. No pages here.

Whoever calls these has locked the conversation, so a second click finds what the first one did.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import handback, mailers, services
from mailagent.domain.mail.card_number import mask_card_numbers
from mailagent.domain.mail.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail.draft import LONGEST_ANSWER, DraftState
from mailagent.domain.typed_text import without_controls
from mailagent.store import audit
from mailagent.store.mail import assignments, conversations, drafts, outbound


class AnswerProblem(ValueError):
    """What somebody typed cannot be sent; the text says what to change."""


def parse_answer(typed: str) -> str:
    """Return what somebody typed for a customer, as it is sent: card numbers masked. Raises
    AnswerProblem when it is empty or too long."""
    text = mask_card_numbers(without_controls(typed)).strip()
    if not text:
        raise AnswerProblem("There is nothing in it. Write what the customer should read.")
    if len(text) > LONGEST_ANSWER:
        raise AnswerProblem(
            f"It is {len(text):,} characters long; {LONGEST_ANSWER:,} are the most. Shorten it."
        )
    return text


def take_over(
    connection: sa.Connection,
    conversation: Conversation,
    email: str,
    up_to: str | None = None,
) -> None:
    """Make a conversation somebody's own: the agent stops, drafts are thrown away, and what waits is
    theirs to answer. Mail later than `up_to` still waits, and is passed on to them."""
    now, conversation_id = services.current().now(), conversation.conversation_id
    for draft in drafts.list_waiting_of(connection, conversation_id):
        drafts.settle(connection, draft.draft_id, DraftState.DISCARDED, email, now)
        why = {"why": HandOverReason.TAKEN_OVER.value}
        audit.record(connection, now, email, "draft discarded", draft.draft_id, why)
    assignments.leave(connection, conversation_id, up_to)
    why_over = HandOverReason.TAKEN_OVER.value
    conversations.hand_over(connection, conversation_id, why_over, now, owner_email=email)
    audit.record(connection, now, email, "conversation taken over", conversation_id)


def was_sent(connection: sa.Connection, conversation_id: str, once: str) -> bool:
    """Say whether the answer of this form was sent before."""
    return once.isprintable() and outbound.is_recorded(connection, _key(conversation_id, once))


def _key(conversation_id: str, once: str) -> str:
    return f"person:{conversation_id}:{once}"


def answer(
    connection: sa.Connection,
    conversation: Conversation,
    email: str,
    text: str,
    once: str,
    up_to: str | None = None,
) -> bool:
    """Write to the customer what somebody of the shop answers, and ring for it; return False if this
    form was sent before. `once` is the form's own id, `up_to` the newest mail that they saw: it answers
    no later one. Who answers for the agent takes over."""
    live, conversation_id = services.current(), conversation.conversation_id
    key = _key(conversation_id, once)
    if outbound.is_recorded(connection, key):
        return False
    if conversation.status is ConversationStatus.OPEN:
        take_over(connection, conversation, email, up_to)
    assignments.leave(connection, conversation_id, up_to)
    member = email.partition("@")[0]
    outbound_id = mailers.write_person_reply(connection, conversation, member, text, key)
    assignments.answer(connection, conversation_id, outbound_id, up_to)
    live.doorbell.ring_delivery(connection, outbound_id)
    details = {"outbound_id": outbound_id}
    audit.record(connection, live.now(), email, "customer answered", conversation_id, details)
    return True


def give_back(connection: sa.Connection, conversation: Conversation, email: str) -> bool:
    """Give a conversation to the agent, and ring for what was left unanswered in it; return False if the
    agent has it already."""
    if not handback.give_back(connection, conversation.conversation_id):
        return False
    now = services.current().now()
    audit.record(connection, now, email, audit.GIVEN_BACK, conversation.conversation_id)
    return True
