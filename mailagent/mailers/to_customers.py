"""Mail to customers: the agent's answers, the outcome of a refund, and what a person writes to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import DraftReplies
from mailagent.domain.mail.message import (
    InboundMail,
    Purpose,
    confirm_code,
    first_words,
    named_to_confirm,
)
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.money import Money
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.offer import Offer
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.refunds.settlement import Settlement
from mailagent.domain.remedies.remedy import Remedy
from mailagent.domain.text import name_in_address
from mailagent.mailers.compose import MailContent, write_to_customer
from mailagent.mailers.fact import Fact, sentence
from mailagent.mailers.facts import Reader
from mailagent.mailers.letter import Letter, reader_of, record_credit_offers
from mailagent.mailers.values import left_of, values_of_offer, values_of_remedy
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound
from mailagent.store.orders import versions
from mailagent.store.refunds import (
    approvals,
    orders,
    refund_payments,
    refunds,
    reviews,
    settlements,
    stops,
)
from mailagent.store.refunds.external_refunds import ORDER_RECORD


def write_reply(
    reader: Reader,
    mails: Sequence[InboundMail],
    letter: Letter,
    by_person: bool = False,
    files: tuple[OutgoingFile, ...] = (),
) -> str:
    """Write the agent's answer. An unproven sender proves the mailbox by replying to the confirmation
    address. `by_person`: a person has read and sent the answer, perhaps with files."""
    confirm = not reader.proven
    order_ids = () if confirm else letter.order_ids
    content = MailContent(
        Purpose.REPLY,
        "reply",
        {
            "customer_name": reader.customer_name(),
            "text": letter.text,
            **_confirmation(reader, mails),
            "goodwill": reader.goodwill_due,
            "helped": _vote_links(mails) if reader.proven else None,
        },
        dedup_key=f"reply:{mails[-1].mail_id}",
        by_person=by_person,
        sources=letter.sources,
        files=files,
        order_ids=order_ids,
        composition=letter.composition,
    )
    outbound_id = write_to_customer(reader, content, mails[-1], confirm, language=letter.language)
    record_credit_offers(reader, letter, outbound_id)
    return outbound_id


def _confirmation(reader: Reader, mails: Sequence[InboundMail]) -> dict[str, Any]:
    """Return the code that a sender who is not proven is asked for, the mails that it proves, and the code
    that proves the last of several: an earlier one may be forged."""
    if reader.proven:
        return {"confirm_code": None, "confirm_mails": (), "confirm_last_code": None}
    thread = reader.conversation
    earlier = inbound.list_unproven(
        reader.connection, thread.conversation_id, thread.customer_email
    )
    named = named_to_confirm((*earlier, *mails))
    token, last = thread.confirm_token, mails[-1].mail_id
    return {
        "confirm_code": confirm_code(token, last),
        "confirm_mails": [
            {"at": each.received_at, "words": first_words(each.new_text)} for each in named
        ],
        "confirm_last_code": confirm_code(token, last, last_only=True) if named[1:] else None,
    }


def _vote_links(mails: Sequence[InboundMail]) -> dict[str, str] | None:
    """Return the links to say whether the answer to these mails helped, if the shop asks."""
    live = services.current()
    return live.links.sign_votes(mails[-1].mail_id) if live.shop.asks_if_helped else None


def write_handed_over(
    connection: sa.Connection,
    conversation: Conversation,
    mails: Sequence[InboundMail],
    untrue: bool,
    dedup_key: str,
) -> str:
    """Tell the customer that a person takes over. `untrue`: the mail replaces an answer that did not pass the
    checks. In draft mode a discount waits for the next answer that a person sends."""
    reader = reader_of(connection, conversation, mails)
    is_drafted = services.current().draft_replies is not DraftReplies.NONE
    content = MailContent(
        Purpose.REPLY,
        "neutral_reply" if untrue else "handed_over",
        {
            "customer_name": reader.customer_name(),
            "goodwill": None if is_drafted else reader.goodwill_due,
        },
        dedup_key=f"{dedup_key}:customer",
        order_ids=reader.orders_of_mails(),
    )
    return write_to_customer(reader, content, mails[-1])


def write_refund_outcome(connection: sa.Connection, refund: Refund, template: str) -> str:
    """Tell the customer the outcome of a refund, in the thread of the request."""
    purpose = Purpose.RECEIPT if template == "receipt" else Purpose.REFUND_OUTCOME
    values = _outcome_values(connection, refund)
    key = refunds.outcome_key(refund.refund_id)
    return _write_about(connection, refund, purpose, template, values, key)


def write_offer(connection: sa.Connection, refund: Refund, offer: Offer) -> str:
    """Tell the customer what a manager offers instead of a refund."""
    order = orders.load(connection, refund.order_id)
    conversation = conversations.load(connection, refund.conversation_id)
    told = fact_of_offer(connection, offer, order)
    locale = services.current().shop.locale_for(conversation.language)
    values = {
        "order_id": order.order_id,
        "amount": refund.asked,
        "text": sentence(told, locale),
        "note": _note(connection, refund),
    }
    key = refunds.outcome_key(refund.refund_id)
    return _write_about(connection, refund, Purpose.REFUND_OUTCOME, "refund_offered", values, key)


def fact_of_offer(connection: sa.Connection, offer: Offer, order: Order) -> Fact:
    values = values_of_offer(offer, order, left_of(connection, order))
    return Fact("offer", {"order_id": order.order_id, **values})


def write_promise(connection: sa.Connection, refund: Refund, promised: Sequence[Settlement]) -> str:
    """Tell the customer, once for a refund, by when the shop pays what its ledger has recorded."""
    values = {"order_id": refund.order_id, **values_of_promise(promised)}
    key = refunds.promise_key(refund.refund_id)
    return _write_about(connection, refund, Purpose.REFUND_OUTCOME, "refund_promised", values, key)


def values_of_promise(promised: Sequence[Settlement]) -> dict[str, Any]:
    """Return the sum of these settlements, and by when all of it is paid."""
    minor = sum(each.amount.minor for each in promised)
    return {
        "amount": Money(minor, promised[0].amount.currency),
        "days": max((each.due_at - each.recorded_at).days for each in promised),
        "pay_by": max(each.due_at for each in promised),
    }


def write_receipt(connection: sa.Connection, refund: Refund, others: Sequence[Refund]) -> str:
    """Write one receipt for a paid refund and for `others` that the same mail led to. Lock them all first."""
    if not others:
        return write_refund_outcome(connection, refund, "receipt")
    told = sorted((refund, *others), key=lambda each: each.refund_id)
    outbound_id = _write_about(
        connection,
        refund,
        Purpose.RECEIPT,
        "receipts",
        {"refunds": [_outcome_values(connection, each) for each in told]},
        refunds.outcome_key(refund.refund_id),
        [each.order_id for each in told],
    )
    refunds.record_receipt(connection, others, outbound_id)
    return outbound_id


def _write_about(
    connection: sa.Connection,
    refund: Refund,
    purpose: Purpose,
    template: str,
    values: dict[str, Any],
    dedup_key: str,
    order_ids: Sequence[str] = (),
) -> str:
    """Write a mail about a refund in the thread where it was asked for, with the record of its orders."""
    conversation = conversations.load(connection, refund.conversation_id)
    reader = Reader(connection, conversation, (), proven=True)
    content = MailContent(
        purpose,
        template,
        values | {"customer_name": reader.customer_name()},
        dedup_key,
        refund_id=refund.refund_id,
        order_ids=order_ids or [refund.order_id],
    )
    return write_to_customer(reader, content, inbound.find(connection, refund.mail_id))


def _outcome_values(connection: sa.Connection, refund: Refund) -> dict[str, Any]:
    order = orders.load(connection, refund.order_id)
    return {
        "order_id": refund.order_id,
        "items": reviews.items_of(refund, order),
        "amount": refund.asked if refund.status is RefundStatus.REJECTED else refund.amount,
        "credit": credit_of(refund),
        "shipping": refund.shipping,
        # What the items add up to, if less was approved.
        "asked": refund.worth if refund.worth.minor > refund.amount.minor else None,
        "payments": _payments(connection, refund, order),
        "paid_at": refund.paid_at,
        "requested_at": refund.requested_at,
        "part_paid": refund.part_paid,
        "part_credit": refund_payments.sum_credit(connection, refund)[0],
        "elsewhere": _all_paid_back(connection, refund, order),
        "note": _note(connection, refund),
    }


def _all_paid_back(connection: sa.Connection, refund: Refund, order: Order) -> Money | None:
    """Return what was paid for the order of a failed refund, if other refunds, ours or external ones, gave all
    of it back: then the customer has the money. None also if the order is another customer's now."""
    is_failed = refund.status is RefundStatus.FAILED
    if not is_failed or stops.is_another_customers(connection, order, refund):
        return None
    back = _paid_back_minor(connection, refund, order)
    return order.paid if 0 < order.paid.minor <= back else None


def _paid_back_minor(connection: sa.Connection, refund: Refund, order: Order) -> int:
    """Return how much of an order other refunds than this one have certainly given back, in minor units. The
    shop's record may include our refunds, so of each payment the higher sum counts, not both."""
    parts = [
        each
        for each in refund_payments.list_parts(connection, order_id=order.order_id)
        # Store credit is not money.
        if each.state == "done" and each.credit_bonus is None and each.gateway != ORDER_RECORD
    ]
    # Of this refund the mail itself says what was paid.
    others = [each for each in parts if each.refund_id != refund.refund_id]
    back = refund_payments.sum_by_payment(filter(refund_payments.counts, others))
    # The record may also include this refund, and money that has come back since.
    not_back = refund_payments.sum_by_payment(parts) - back
    for each in (*order.payments, *versions.payments_now(connection, order.order_id)):
        name = each.payment_id
        back[name] = max(back[name], each.refunded_minor - not_back[name])
    return back.total()


def write_refund_returned(connection: sa.Connection, refund: Refund) -> str:
    """Tell the customer that money or store credit which we reported as given came back to the shop.

    Raises ValueError if none came back.
    """
    untrue = refunds.list_told_before_return(connection, refund.refund_id)
    if refund.returned is None or not untrue:
        raise ValueError(f"nothing that was told of refund {refund.refund_id} came back")
    keys = {row.idempotency_key for row in untrue}
    parts = refund_payments.list_with_credit(connection, refund)
    given = [(row, credit) for row, credit in parts if row.idempotency_key in keys]
    minor = sum(credit.minor if credit else row.amount_minor for row, credit in given)
    told = settlements.list_bank_references(connection, refund.refund_id)
    values = {
        "order_id": refund.order_id,
        "amount": credit_of(refund) or refund.amount,
        "is_credit": refund.credit_bonus is not None,
        "returned": Money(minor, refund.amount.currency),
        "reference": ", ".join(told.get(row.idempotency_key, row.reference) for row, _ in given),
    }
    key = refunds.returned_key(refund.refund_id, refund.returned.minor)
    return _write_about(connection, refund, Purpose.REFUND_OUTCOME, "refund_returned", values, key)


def _payments(connection: sa.Connection, refund: Refund, order: Order) -> list[dict[str, Any]]:
    policy = services.current().policy
    methods = {payment.payment_id: payment.method for payment in order.payments}
    banks = settlements.list_bank_references(connection, refund.refund_id)
    return [
        {
            "method": "store_credit" if credit else methods.get(row.payment_id, row.payment_id),
            "amount": credit or Money(row.amount_minor, refund.amount.currency),
            "reference": banks.get(row.idempotency_key, row.reference),
            "expected_days": 0
            if credit
            else policy.days_until_arrival(methods.get(row.payment_id, "")),
        }
        for row, credit in refund_payments.list_with_credit(connection, refund)
        if row.state == "done" and row.returned_at is None
    ]


def _note(connection: sa.Connection, refund: Refund) -> str | None:
    """Return the managers' notes for the customer: after a rejection only those of who rejected, because the
    others could contradict them. Notes for the shop only are left out."""
    if refund.decided_by == audit.POLICY:
        return None  # it never had an approval
    made = approvals.list_decisions(connection, refund.refund_id)
    approves = refund.status is not RefundStatus.REJECTED
    counted = [each for each in made if each.approves is approves and each.note_shared]
    return "\n\n".join(each.note for each in counted if each.note) or None


def write_remedy(connection: sa.Connection, remedy: Remedy, dedup_key: str) -> str:
    """Tell the customer the state of a remedy, in the thread where it was asked for."""
    live = services.current()
    conversation = conversations.load(connection, remedy.conversation_id)
    reader = Reader(connection, conversation, (), proven=True)
    note = None if remedy.is_open else remedy.note  # the first of two managers may have left one
    content = MailContent(
        Purpose.REMEDY,
        "remedy",
        {
            "customer_name": reader.customer_name(),
            "order_id": remedy.order_id,
            "text": sentence(fact_of_remedy(remedy), live.shop.locale_for(conversation.language)),
            "note": note,
        },
        dedup_key=dedup_key,
        by_person=note is not None,
        order_ids=(remedy.order_id,),
        remedy_id=remedy.remedy_id,
    )
    mail = inbound.find(connection, remedy.mail_id)
    language = conversation.language
    return write_to_customer(reader, content, mail, language=language)


def fact_of_remedy(remedy: Remedy) -> Fact:
    return Fact("remedy", {"order_id": remedy.order_id, "remedies": [values_of_remedy(remedy)]})


def write_team_reply(
    connection: sa.Connection, conversation: Conversation, mail: InboundMail, words: str
) -> str:
    """Write to the customer the words of a team member, without what their mail quotes: it may be internal."""
    member = mail.from_name or name_in_address(mail.from_address)
    return write_person_reply(connection, conversation, member, words, f"team:{mail.mail_id}")


def write_person_reply(
    connection: sa.Connection,
    conversation: Conversation,
    member: str,
    text: str,
    dedup_key: str,
    files: tuple[OutgoingFile, ...] = (),
) -> str:
    """Write a team member's answer in the thread, from the support address, signed with the name `member`."""
    asked = inbound.list_latest(connection, conversation.conversation_id, 1)
    known = refunds.list_of_conversation(connection, conversation.conversation_id)
    order_ids = [refund.order_id for refund in known]
    reader = Reader(connection, conversation, (), proven=True)
    content = MailContent(
        Purpose.TEAM_REPLY,
        "team_reply",
        {"text": text, "member": member, "goodwill": reader.goodwill_due},
        dedup_key=dedup_key,
        by_person=True,
        files=files,
        order_ids=order_ids,
    )
    return write_to_customer(reader, content, asked[0] if asked else None)
