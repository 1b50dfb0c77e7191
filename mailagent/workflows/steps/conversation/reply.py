"""The agent's reply: facts are read from the rows. In draft mode a person sends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NotRequired, TypedDict

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.agent import loop
from mailagent.agent.reply.composition import Composition, CompositionProblem, parse
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import DraftReplies, Topic, waits_for_click
from mailagent.domain.mail.message import InboundMail
from mailagent.mailers import Letter
from mailagent.store import audit
from mailagent.store.mail import conversations, drafts, inbound
from mailagent.store.refunds import goodwill, offers, orders, refunds, remedies
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.conversation.model_call import RecordedMove
from mailagent.workflows.steps.conversation.second_reader import find_checked_words
from mailagent.workflows.steps.conversation.texts import StoredText, read_text, store_text
from mailagent.workflows.steps.recording import step


class Written(TypedDict):
    """What became of a reply. `kind`: `written`, with the mails to send (none if it waits as a draft, which
    `done` says), or `untrue`, with the `items` that tell the model why."""

    kind: Literal["written", "untrue"]
    outbound_ids: list[str]
    items: list[StoredText]
    spent: dict[str, int]
    done: NotRequired[str]


@step
def write_reply(batch: Batch, move: RecordedMove, spent: dict[str, int]) -> Written:
    """Write the model's reply as a mail, or as a draft, if it names only facts that are on record.

    Raises NeedsOperatorError when the text of the move was deleted.
    """
    live = services.current()
    answer = _read_and_check(batch, move)
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        # Proven or not as in the batch, as the model saw it: the sender may have been proven since.
        reader = batch_reader(connection, batch, conversation)
        mails = reader.mails
        written = Written(kind="written", outbound_ids=[], items=[], spent=spent)
        if not all(mail.awaits_agent for mail in mails):
            return {**written, "outbound_ids": answers_of(mails)}
        letter = (
            mailers.write_letter(reader, answer)
            if isinstance(answer, Composition)
            else Letter("", "en", problems=(str(answer),))
        )
        if letter.problems:
            correction = {"items": [loop.correction_item(letter.problems)]}
            items = [store_text(connection, batch, correction)]
            more = loop.Spent(**spent).plus_unusable_reply().plain()
            return Written(kind="untrue", outbound_ids=[], items=items, spent=more)
        if _write_draft_if_wanted(connection, conversation, mails, letter):
            return {**written, "done": "wrote a draft"}
        outbound_id = mailers.write_reply(reader, mails, letter)
        inbound.answer(connection, batch["mail_ids"], outbound_id)
        audit.record(connection, live.now(), audit.AGENT, "mail answered", mails[-1].mail_id)
        return {**written, "outbound_ids": [outbound_id]}


def _read_and_check(batch: Batch, move: RecordedMove) -> Composition | CompositionProblem:
    """Return the model's answer with only those words that passed both checks, or the problem if it cannot be
    parsed."""
    with services.current().database.snapshot() as connection:
        text = str(read_text(connection, move)["text"])
    try:
        composition = parse(text)
    except CompositionProblem as problem:
        return problem
    return composition.keep_words(find_checked_words(batch, composition))


def _write_draft_if_wanted(
    connection: sa.Connection,
    conversation: Conversation,
    mails: Sequence[InboundMail],
    letter: Letter,
) -> bool:
    """Write the answer as a draft if a person has to send it. Return whether that is so."""
    live = services.current()
    if live.draft_replies is DraftReplies.NONE:
        return False
    mail_ids = [mail.mail_id for mail in mails]
    topics = find_topics(connection, conversation, mail_ids, letter.order_ids)
    if not waits_for_click(live.draft_replies, topics):
        return False
    conversation_id, now = conversation.conversation_id, live.now()
    draft_id = drafts.record(
        connection, conversation_id, mail_ids, topics, letter.text, now, letter.composition
    )
    details = {"mail_id": mail_ids[-1]}
    audit.record(connection, now, audit.AGENT, "draft written", draft_id, details)
    return True


def answers_of(mails: Sequence[InboundMail]) -> list[str]:
    """Return the ids of our mails that answer these. A step that died may have written them without sending
    them."""
    return list(dict.fromkeys(mail.answered_by for mail in mails if mail.answered_by))


# --- topics ---------------------------------------------------------------------------------------

ORDERS_SEARCHED = 1000


def find_topics(
    connection: sa.Connection,
    conversation: Conversation,
    mail_ids: Sequence[str],
    order_ids: Sequence[str],
) -> tuple[Topic, ...]:
    """Return the topics of an answer that names these orders, in the order of Topic; at least one."""
    found = set(_topics(connection, conversation, mail_ids, order_ids))
    return tuple(topic for topic in Topic if topic in (found or {Topic.OTHER}))


def _topics(
    connection: sa.Connection,
    conversation: Conversation,
    mail_ids: Sequence[str],
    named_ids: Sequence[str],
) -> Iterator[Topic]:
    address, now = conversation.customer_email, services.current().now()
    known = refunds.list_of_customer(connection, address)
    bought, _ = orders.list_of_customer(connection, address, ORDERS_SEARCHED)
    order_ids = [order.order_id for order in bought]
    refund_ids = [refund.refund_id for refund in known]
    remedy_ids = [each.remedy_id for each in remedies.list_of_orders(connection, order_ids)]

    def acted(action: audit.Action, subjects: Sequence[str]) -> bool:
        return bool(audit.details_of_mails(connection, subjects, action, mail_ids))

    if any(refund.mail_id in mail_ids for refund in known) or acted(audit.DECLINED, order_ids):
        yield Topic.REFUND
    if acted("store credit chosen", refund_ids) or acted("money chosen", refund_ids):
        yield Topic.REFUND
    if not offers.list_untold(connection, address, now).isdisjoint(named_ids):
        yield Topic.REFUND
    if acted(audit.WITHDRAWN, refund_ids):
        yield Topic.WITHDRAWAL
    if goodwill.load_known(connection, address, mail_ids).find_due(now):
        yield Topic.GOODWILL
    if not goodwill.list_untold(connection, address, now).isdisjoint(named_ids):
        yield Topic.GOODWILL
    if remedies.list_of_mails(connection, conversation.conversation_id, mail_ids):
        yield Topic.REMEDY
    if acted(audit.REQUEST_WITHDRAWN, remedy_ids):
        yield Topic.REMEDY
    if named_ids:
        yield Topic.ORDERS
