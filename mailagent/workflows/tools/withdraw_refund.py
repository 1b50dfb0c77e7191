"""The tool that withdraws what still waits on an order: refunds that no gateway was asked to pay, tasks, and
offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import remedies as ending
from mailagent import services
from mailagent.domain.refunds.offer import units_of
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import SENT_AGAIN, RemedyKind
from mailagent.mailers import Reader
from mailagent.mailers.values import can_be_withdrawn
from mailagent.proposals import offers
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.store.refunds import offers as stored_offers
from mailagent.store.refunds import orders, refund_payments, refunds, remedies
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    Output,
    Tool,
    case_closed_output,
    no_such_order_output,
)

_WHY = "the customer withdrew the refund"
_WAITING = (RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED)
_SETTLED = (RefundStatus.APPROVED, RefundStatus.PAID)
_INSTEAD = SENT_AGAIN | {RemedyKind.CHANGE_ADDRESS}


class WithdrawRefund(Arguments):
    order_id: Id


def withdraw_refund(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Withdraw the refunds, tasks and offers of one order that wait, including those of another conversation.

    What is paid, or may be, is not touched, nor what a later mail asked for. The output comes from the rows, so
    the same call again gets the same output.
    """
    connection, order_id = reader.connection, arguments["order_id"]
    order = orders.lock_of_conversation(connection, order_id, reader.conversation_id)
    if order is None:
        return no_such_order_output(order_id)
    if not is_waiting(connection, reader.mail_ids):
        return case_closed_output()
    _note_wish(reader, order.order_id)
    later = _list_later(reader, order.order_id)
    ending.withdraw(connection, order.order_id, reader.mail_ids[-1], later.values())
    for refund in refunds.list_of_order(connection, order.order_id):
        # A refund that follows a cancellation or a return stays: that may be done already.
        if (
            refund.refund_id not in later
            and remedies.find_of_refund(connection, refund.refund_id) is None
        ):
            _withdraw(connection, refund.refund_id, reader.mail_ids[-1])
    offers.withdraw(connection, order.order_id, reader.mail_ids[-1], later.values())
    output = _output(connection, reader.mail_ids, order.order_id, later)
    if offers.is_withdrawn(connection, order.order_id, reader.mail_ids):
        if output["outcome"] == "nothing_waits":
            output = offer_withdrawn_output(order.order_id)
        else:
            say = f"{output['say']} The offer is withdrawn: name the fact offer, too."
            output |= {"facts": [*output["facts"], f"offer/{order.order_id}"], "say": say}
    return _add_later(output, order.order_id, later) if later else output


def find_in_the_way(
    reader: Reader, known: Sequence[Refund], item_ids: Collection[str]
) -> Refund | None:
    """Return the refund that holds some of these items, and that withdraw_refund would withdraw."""
    connection, wanted = reader.connection, set(item_ids)
    holding = [each for each in known if each.holds_money and wanted & set(each.item_ids)]
    later = inbound.list_later(connection, [each.mail_id for each in holding], reader.mail_ids)
    may_go = (
        each for each in holding if each.mail_id not in later and can_be_withdrawn(connection, each)
    )
    return next(may_go, None)


def refund_waits_output(reader: Reader, waiting: Refund, wanted: Counter[str]) -> Output:
    """Return the answer to another request for items whose refund waits. It needs a person if
    withdraw_refund would withdraw more than the refund of these units, or could not withdraw it.
    `wanted`: units by item id."""
    held = Counter(dict(units_of(waiting.item_ids, waiting.lines)))
    tied = remedies.find_of_refund(reader.connection, waiting.refund_id)
    may_go = tied is None or tied.can_be_withdrawn
    if may_go and held <= wanted and _is_alone(reader.connection, waiting):
        say = "If they want this instead of the money, call withdraw_refund, then call this again."
    else:
        say = "If they want this instead of the money, call hand_over."
    return {
        "outcome": "refund_waits",
        "facts": [f"refund/{waiting.order_id}"],
        "order_id": waiting.order_id,
        "say": f"Nothing was done: a refund of some of these items waits. {say} If not, name the fact.",
    }


def _is_alone(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether withdraw_refund would withdraw nothing of the order but this refund."""
    known, now = refunds.list_of_order(connection, refund.order_id), services.current().now()
    others = [each for each in known if each.refund_id != refund.refund_id]
    return not (
        any(can_be_withdrawn(connection, each) for each in others)
        or any(
            each.is_open and each.refund_id != refund.refund_id
            for each in remedies.list_of_order(connection, refund.order_id)
        )
        or any(
            each.is_open(now) for each in stored_offers.list_of_order(connection, refund.order_id)
        )
    )


def _note_wish(reader: Reader, order_id: str) -> None:
    """Record, once, that the newest of these mails withdraws requests on an order. A run for an
    older mail that is answered later finds this record."""
    connection, newest, now = reader.connection, reader.mail_ids[-1], services.current().now()
    if not audit.list_of_mails(connection, order_id, audit.WITHDRAWAL_ASKED_FOR, [newest]):
        details = {"mail_id": newest}
        audit.record(connection, now, audit.CUSTOMER, audit.WITHDRAWAL_ASKED_FOR, order_id, details)


def _list_later(reader: Reader, order_id: str) -> dict[str, str]:
    """Return the waiting refunds, tasks and offers of an order that must stay: each id with the mail that asked
    for it. Those of later mails stay, because a failed run may be replayed after the customer wrote again.
    Those that the newest of these mails made after it withdrew something stay, because a replay withdraws
    again; and so do its exchanges, replacements and changes of address, which the customer may want instead."""
    connection, now = reader.connection, services.current().now()
    waiting = {
        each.refund_id: (each.mail_id, each.requested_at)
        for each in refunds.list_of_order(connection, order_id)
        if each.status in _WAITING
    }
    tasks = [each for each in remedies.list_of_order(connection, order_id) if each.is_open]
    waiting |= {each.remedy_id: (each.mail_id, each.requested_at) for each in tasks}
    made = stored_offers.list_of_order(connection, order_id)
    waiting |= {
        each.offer_id: (each.mail_id, each.offered_at) for each in made if each.is_open(now)
    }
    mail_ids, newest = [mail_id for mail_id, _ in waiting.values()], reader.mail_ids[-1]
    later = inbound.list_later(connection, mail_ids, reader.mail_ids)
    wish, *_ = audit.list_of_mails(connection, order_id, audit.WITHDRAWAL_ASKED_FOR, [newest])
    instead = {each.remedy_id for each in tasks if each.kind in _INSTEAD}
    return {
        row_id: mail_id
        for row_id, (mail_id, at) in waiting.items()
        if mail_id in later or (mail_id == newest and (at > wish.at or row_id in instead))
    }


def _add_later(output: Output, order_id: str, later: Collection[str]) -> Output:
    """Return the output, or another one if nothing was withdrawn, with what later mails asked for."""
    kinds = {row_id.partition("_")[0] for row_id in later}
    facts = [f"{kind}/{order_id}" for kind in ("refund", "remedy", "offer") if kind in kinds]
    if output["outcome"] != "withdrawn":
        return asked_later_output(order_id, facts)
    say = f"{output['say']} What they asked for in this or a later mail stays: name each fact."
    return output | {"facts": list(dict.fromkeys([*output["facts"], *facts])), "say": say}


def _withdraw(connection: sa.Connection, refund_id: str, mail_id: str) -> None:
    live = services.current()
    refund = refunds.lock(connection, refund_id)
    if refund.status not in _WAITING:
        return
    if not refund_payments.give_up(connection, refund_id, _WHY):
        return
    refunds.move(
        connection, refund, RefundStatus.WITHDRAWN, decided_by=audit.CUSTOMER, decided_at=live.now()
    )
    audit.record(
        connection,
        live.now(),
        audit.CUSTOMER,
        audit.WITHDRAWN,
        refund_id,
        {"amount": str(refund.amount), "mail_id": mail_id},
    )
    ending.wake(connection, refund, "withdrawn")


def _output(
    connection: sa.Connection, mail_ids: Sequence[str], order_id: str, later: Collection[str]
) -> Output:
    made = refunds.list_of_order(connection, order_id)
    known = [refund for refund in made if refund.refund_id not in later]
    gone = [refund for refund in known if refund.status is RefundStatus.WITHDRAWN]
    settled = [refund for refund in known if refund.status in _SETTLED]
    if settled:
        # An older withdrawal says nothing of the refunds that stay, which these mails are about.
        by_these = audit.details_of_mails(
            connection, [refund.refund_id for refund in gone], audit.WITHDRAWN, mail_ids
        )
        gone = [refund for refund in gone if refund.refund_id in by_these]
    # What was withdrawn, and then asked for again and paid, is not withdrawn.
    last = max((refund.decided_at or refund.requested_at for refund in gone), default=None)
    if requests := _requests_withdrawn(connection, mail_ids, order_id):
        output = withdrawn_output(order_id, gone, settled)
        told = [f"remedy/{order_id}", *(output["facts"] if gone else ())]
        return output | {"facts": told, "requests": requests}
    waits = any(refund.status is RefundStatus.AWAITING_APPROVAL for refund in known)
    under_way = {
        each.kind for each in remedies.list_of_order(connection, order_id) if each.may_be_done
    }
    if waits or RemedyKind.CANCEL in under_way:
        return cancelling_output(order_id)
    if last and all(refund.requested_at <= last for refund in settled):
        return withdrawn_output(order_id, gone, settled)
    if settled:
        return too_late_output(order_id, settled)
    return changing_output(order_id) if under_way else nothing_waits_output(order_id)


def _requests_withdrawn(
    connection: sa.Connection, mail_ids: Sequence[str], order_id: str
) -> list[str]:
    """Return the kinds of the tasks that these mails withdrew."""
    known = {each.remedy_id: each for each in remedies.list_of_order(connection, order_id)}
    gone = audit.details_of_mails(connection, [*known], audit.REQUEST_WITHDRAWN, mail_ids)
    return [known[remedy_id].kind.value for remedy_id in gone]


def withdrawn_output(order_id: str, gone: Sequence[Refund], others: Sequence[Refund]) -> Output:
    """Return the answer when `gone` were withdrawn, now or before; `others` are paid, or may be."""
    say = "The request is withdrawn: name the fact. They can ask again in a new mail."
    if others:
        say += " What stands under not_withdrawn is paid, or being paid, and stays as it is."
    return {
        "outcome": "withdrawn",
        "facts": [f"refund/{order_id}"],
        "order_id": order_id,
        "withdrawn": [str(refund.amount) for refund in gone],
        "not_withdrawn": [_state(refund) for refund in others],
        "say": say,
    }


def offer_withdrawn_output(order_id: str) -> Output:
    """Return the answer when an offer of part of the price was withdrawn, and nothing else waited."""
    return {
        "outcome": "withdrawn",
        "facts": [f"offer/{order_id}"],
        "order_id": order_id,
        "say": "The offer is withdrawn: name the fact. They can ask again in a new mail.",
    }


def asked_later_output(order_id: str, facts: Sequence[str]) -> Output:
    """Return the answer when nothing is withdrawn, because this mail or a later one asked for what waits.
    `facts`: about that."""
    return {
        "outcome": "asked_later",
        "facts": [*facts],
        "order_id": order_id,
        "say": "They asked for what waits in this or a later mail, so nothing was withdrawn: name each fact.",
    }


def cancelling_output(order_id: str) -> Output:
    """Return the answer when nothing is withdrawn, because the items of a waiting refund are cancelled or came
    back, or are about to be cancelled."""
    return {
        "outcome": "too_late",
        "facts": [f"remedy/{order_id}", f"refund/{order_id}"],
        "order_id": order_id,
        "say": "The cancellation or return is done or under way, so nothing was withdrawn: name both facts.",
    }


def changing_output(order_id: str) -> Output:
    """Return the answer when only a change of address is under way."""
    return {
        "outcome": "too_late",
        "facts": [f"remedy/{order_id}"],
        "order_id": order_id,
        "say": "The shop's system is asked for the new address already, so it was not withdrawn: name "
        "the fact. If they want another address, request it anew.",
    }


def too_late_output(order_id: str, refunds: Sequence[Refund]) -> Output:
    """Return the answer when every refund of the order is paid, or may be; the newest is told of."""
    return {
        "outcome": "too_late",
        "facts": [f"not_withdrawn/{order_id}", f"refund/{order_id}"],
        "order_id": order_id,
        "not_withdrawn": [_state(refund) for refund in refunds],
        "say": "Nothing was withdrawn, and nothing can be any more: name the fact not_withdrawn.",
    }


def nothing_waits_output(order_id: str) -> Output:
    """Return the answer when no refund of the order waits, is approved or was paid."""
    return {
        "outcome": "nothing_waits",
        "facts": [f"nothing_waits/{order_id}", f"refund/{order_id}"],
        "order_id": order_id,
        "say": "No refund of this order waits for a decision: name the fact nothing_waits.",
    }


def _state(refund: Refund) -> Output:
    return {"amount": str(refund.amount), "status": refund.status.value}


TOOL = Tool(
    "withdraw_refund",
    WithdrawRefund,
    "Withdraw what the customer asked for on one order and what still waits: refunds that are not"
    " being paid yet, exchanges, replacements, changes of address, and an offer to keep the items. Use it"
    " only when they say that they do not want it any more.",
    withdraw_refund,
)
