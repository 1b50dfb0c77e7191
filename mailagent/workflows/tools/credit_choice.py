"""The customer's choice between money and store credit, as the model reports it.

The model cannot choose credit: a mail must have offered it for this refund or these units, and the customer
must have written after that. While the shop offers store credit, they get the bonus that the mail told,
even if the policy has another one now.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from mailagent import services
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, RefundLine
from mailagent.domain.remedies.remedy import count_units
from mailagent.mailers import Reader
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.store.refunds import credits, refunds


class PayAs(StrEnum):
    NO_CHOICE = "no_choice"
    MONEY = "money"
    STORE_CREDIT = "store_credit"


def find_bonus_told(
    reader: Reader,
    order: Order,
    lines: Sequence[RefundLine],
    others: Sequence[Refund],
    refund_id: str | None = None,
) -> int | None:
    """Return the bonus in percent of the store credit that was offered for a refund or for these lines, so that
    the customer may choose it now; None without an offer. `others`: the other refunds of the order."""
    units = count_units(order, lines)
    here = reader.connection, order.order_id, reader.mails
    return credits.find_bonus(*here, units, others, refund_id)


def choose_as_told(
    reader: Reader, order: Order, refund: Refund, known: Sequence[Refund], pay_as: str | None
) -> Refund:
    """Change an earlier refund to money or store credit, as the customer chooses now, and return it. It does
    not change if no mail offered store credit for it, which then records that they ask for it; if an intent to
    pay is on record; or if a later mail requested it or chose. `known`: refunds of the order."""
    live, connection = services.current(), reader.connection
    if pay_as in (None, PayAs.NO_CHOICE):
        return refund
    bonus = None
    if pay_as == PayAs.STORE_CREDIT:
        others = [each for each in known if each.refund_id != refund.refund_id]
        bonus = find_bonus_told(reader, order, refund.lines, others, refund.refund_id)
        if bonus is None:
            _record_wish(reader, order, refund)
            return refund
    acts: tuple[audit.Action, ...] = ("money chosen", "store credit chosen")
    made = [one for act in acts for one in audit.list_details(connection, refund.refund_id, act)]
    mails = {refund.mail_id, *(each["mail_id"] for each in made)}
    is_late = bool(inbound.list_later(connection, mails, reader.mail_ids))
    is_same = (refund.credit_bonus is None) == (bonus is None)
    # Also record a choice that changes nothing, once: an older mail that is answered later must not undo it.
    is_known = is_same and reader.mail_ids[-1] in mails
    if is_late or is_known or not credits.can_change(connection, refund):
        return refund
    if not is_same:
        credits.choose(connection, refund, bonus)
    changed = refunds.load(connection, refund.refund_id)
    amount = credit_of(changed) or changed.amount
    details = {"amount": str(amount), "mail_id": reader.mail_ids[-1]}
    chosen: audit.Action = "money chosen" if bonus is None else "store credit chosen"
    audit.record(connection, live.now(), audit.CUSTOMER, chosen, refund.refund_id, details)
    return changed


def _record_wish(reader: Reader, order: Order, refund: Refund) -> None:
    """Record that the customer asks for store credit for a refund, so that the answer offers it for that."""
    now, connection = services.current().now(), reader.connection
    # Without units: they are of a refund that is not made yet.
    asked = {"mail_id": reader.mail_ids[-1], "units": {}, "refund_id": refund.refund_id}
    audit.record(connection, now, audit.CUSTOMER, audit.CREDIT_ASKED_FOR, order.order_id, asked)
