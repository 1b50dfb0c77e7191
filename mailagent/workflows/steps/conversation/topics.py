"""What an answer of the agent is about, by the rows that were written on the way to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import Topic
from mailagent.store import audit
from mailagent.store.refunds import goodwill, orders, refunds

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
