"""Lets a customer choose between money and store credit while a refund waits. The order is locked."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.refund import Refund
from mailagent.store import audit
from mailagent.store.refunds import credits, refunds


def choose(connection: sa.Connection, refund: Refund, wants_credit: bool, mail_id: str) -> Refund:
    """Let the customer have a refund as store credit, or as money after all; return the refund then. It stays
    as it is if its gateway was asked already, or the policy has no store credit."""
    live = services.current()
    rules = live.policy.store_credit
    same = (refund.credit_bonus is not None) == wants_credit
    if same or rules is None or not credits.can_change(connection, refund):
        return refund
    credits.choose(connection, refund, rules.bonus_percent if wants_credit else None)
    changed = refunds.load(connection, refund.refund_id)
    details = {"amount": str(credit_of(changed) or changed.amount), "mail_id": mail_id}
    chosen: audit.Action = "store credit chosen" if wants_credit else "money chosen"
    audit.record(connection, live.now(), audit.CUSTOMER, chosen, refund.refund_id, details)
    return changed
