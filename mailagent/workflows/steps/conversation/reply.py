"""The agent's reply: sent only if it agrees with the rows; in draft mode only after a person sends it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.agent import loop
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import DraftReplies, Topic, waits_for_click
from mailagent.domain.mail.message import InboundMail
from mailagent.store import audit
from mailagent.store.mail import conversations, drafts, inbound
from mailagent.store.refunds import goodwill, orders, refunds
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.texts import store_texts, words_of


class Written(TypedDict):
    """What became of a reply: `written` with the mails to send (none if it waits as a draft, which
    `done` says), or `untrue`; `items` names what to tell the model then."""

    kind: str
    outbound_ids: list[str]
    items: list[dict[str, Any]]
    spent: dict[str, int]
    done: NotRequired[str]


@step
def write_reply(batch: Batch, move: Mapping[str, Any], spent: dict[str, int]) -> Written:
    """Write the model's reply, the text of a move, as a mail to be sent, or as a draft, if it agrees with
    the rows. Raises NeedsOperatorError as `words.words_of` does."""
    problems, written = _write_if_true(batch, str(words_of(move)["text"]), spent)
    if written is not None:
        return written
    more = loop.Spent(**spent).plus_unusable_reply()
    items = [store_texts(batch, {"items": [loop.correction_item(problems)]})]
    return Written(kind="untrue", outbound_ids=[], items=items, spent=more.plain())


def _write_if_true(
    batch: Batch, text: str, spent: dict[str, int]
) -> tuple[Sequence[str], Written | None]:
    """Return what in a reply is not true; if nothing, what was written."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = inbound.list_by_id(connection, batch["mail_ids"])
        if not all(mail.awaits_agent for mail in mails):
            return (), Written(
                kind="written", outbound_ids=answers_of(mails), items=[], spent=spent
            )
        verified = batch["verified"]
        problems = mailers.find_untrue(connection, conversation, mails, verified, text)
        if problems:
            return problems, None
        used = (spent["model_turns"], spent["tokens"])
        conversations.count_model_use(connection, conversation.conversation_id, *used)
        if _write_draft_if_wanted(connection, conversation, mails, text):
            return (), Written(
                kind="written", outbound_ids=[], items=[], spent=spent, done="wrote a draft"
            )
        outbound_id = mailers.write_reply(connection, conversation, mails, text)
        answered = [mail.mail_id for mail in mails]
        inbound.answer(connection, answered, outbound_id)
        audit.record(connection, live.now(), audit.AGENT, "mail answered", answered[-1])
    return (), Written(kind="written", outbound_ids=[outbound_id], items=[], spent=spent)


def _write_draft_if_wanted(
    connection: sa.Connection, conversation: Conversation, mails: Sequence[InboundMail], text: str
) -> bool:
    """Write the answer as a draft if the shop wants that; return whether it does."""
    live = services.current()
    if live.draft_replies is DraftReplies.NONE:
        return False
    mail_ids = [mail.mail_id for mail in mails]
    topics = find_topics(connection, conversation, mail_ids, text)
    if not waits_for_click(live.draft_replies, topics):
        return False
    conversation_id, now = conversation.conversation_id, live.now()
    draft_id = drafts.record(connection, conversation_id, mail_ids, topics, text, now)
    details = {"mail_id": mail_ids[-1]}
    audit.record(connection, now, audit.AGENT, "draft written", draft_id, details)
    return True


def answers_of(mails: Sequence[InboundMail]) -> list[str]:
    """Return the mails of ours that answer these already: written before a crash, perhaps not sent."""
    return list(dict.fromkeys(mail.answered_by for mail in mails if mail.answered_by))


# --- topics ---------------------------------------------------------------------------------------


ORDERS_LOOKED_AT = 1000


def find_topics(
    connection: sa.Connection, conversation: Conversation, mail_ids: Sequence[str], text: str
) -> tuple[Topic, ...]:
    """Return the topics of an answer to these mails, in the order of Topic; never none."""
    found = set(_topics(connection, conversation, mail_ids, text))
    return tuple(topic for topic in Topic if topic in (found or {Topic.OTHER}))


def _topics(
    connection: sa.Connection, conversation: Conversation, mail_ids: Sequence[str], text: str
) -> Iterator[Topic]:
    address = conversation.customer_email
    known = refunds.list_of_customer(connection, address)
    bought, _ = orders.list_of_customer(connection, address, ORDERS_LOOKED_AT)
    order_ids = [order.order_id for order in bought]
    declined = audit.subjects_of_mails(connection, order_ids, audit.DECLINED, mail_ids)
    if declined or any(refund.mail_id in mail_ids for refund in known):
        yield Topic.REFUND
    refund_ids = [refund.refund_id for refund in known]
    if audit.subjects_of_mails(connection, refund_ids, audit.WITHDRAWN, mail_ids):
        yield Topic.WITHDRAWAL
    if goodwill.find_of_mails(connection, mail_ids):
        yield Topic.GOODWILL
    words = set(re.findall(r"[\w-]+", text.casefold()))
    if any(order_id.casefold().lstrip("#") in words for order_id in order_ids):
        yield Topic.ORDERS
