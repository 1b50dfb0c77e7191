"""Checks an answer to a customer against the rows before it is sent or shown.

`agent.reply.check` finds the claims in the text; this module gathers the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from mailagent import services
from mailagent.agent.reply import check
from mailagent.agent.reply.facts import Given, ReplyFacts, gather_facts
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.message import InboundMail
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund
from mailagent.store.mail import correspondence, inbound
from mailagent.store.refunds import goodwill, orders, refunds

ORDERS_CHECKED = 1000
MAILS_CHECKED = 20


def find_untrue(
    connection: sa.Connection,
    conversation: Conversation,
    mails: Sequence[InboundMail],
    verified: bool,
    text: str,
) -> tuple[str, ...]:
    """Return the claims of an answer to these mails that the rows contradict, a sentence each.

    `verified`: the sender of `mails` is proven. Without that, an answer may say nothing about any order.
    """
    # An answer may repeat the customer's words.
    latest = inbound.list_latest(connection, conversation.conversation_id, MAILS_CHECKED)
    theirs = {mail.mail_id: mail for mail in (*latest, *mails)}.values()
    facts = _facts(connection, conversation, theirs, verified)
    words = "\n".join(f"{mail.subject}\n{mail.body}" for mail in theirs)
    return check.find_untrue(text, facts, words)


def _facts(
    connection: sa.Connection,
    conversation: Conversation,
    theirs: Collection[InboundMail],
    verified: bool,
) -> ReplyFacts:
    live = services.current()
    bought: tuple[Order, ...] = ()
    refunded: tuple[Refund, ...] = ()
    given: tuple[GoodwillCode, ...] = ()
    elsewhere: dict[str, int] = {}
    if verified:
        address = conversation.customer_email
        bought, elsewhere = orders.list_with_elsewhere(connection, address, ORDERS_CHECKED)
        refunded = refunds.list_of_customer(connection, address)
        codes = goodwill.list_of_customer(connection, address)
        given = tuple(code for code in codes if code.is_good(live.now()))
    here = (conversation.conversation_id, conversation.customer_email)
    ours = correspondence.list_times_to_customer(connection, *here, MAILS_CHECKED)
    return gather_facts(
        bought,
        refunded,
        live.policy,
        [*(mail.received_at for mail in theirs), *ours],
        live.shop.support_address,
        live.shop.public_url,
        Given(given, elsewhere),
    )
