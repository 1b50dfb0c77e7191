"""The tool that asks people of the shop to exchange or replace items, or to change an address: a task.

The policy decides as on a refund of the same items. A person does what the task says, or says that it is not
possible; then the customer gets a mail. If the policy says so, the shop's system is asked for an address first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, Strict

from mailagent import remedies as ending
from mailagent import services
from mailagent.adapters.mime.reply_text import is_answer, own_words
from mailagent.domain.mail.message import InboundMail, shows_nothing
from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import left_to_ship
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Declined, DeclineReason, ManagerReason, NeedsManager
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    RefundLine,
    RefundReason,
    WantedItem,
    price_lines,
)
from mailagent.domain.remedies.address import NewAddress, has_all
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.remedies.remedy import (
    STANDING,
    Remedy,
    RemedyKind,
    RemedyStatus,
    count_units,
    items_of,
    quotes,
)
from mailagent.domain.text import tell_moment
from mailagent.mailers import Reader
from mailagent.proposals import claims, proposal
from mailagent.proposals.facts import Asked, is_overtaken, without
from mailagent.proposals.proposal import Proposal
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import inbound, outbound
from mailagent.store.refunds import external_refunds, orders, policies, refunds, remedies
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.steps.notices import tell_managers_of_task, tell_team
from mailagent.workflows.tools.propose_refund import (
    ITEMS_MAX,
    Item,
    bad_items_output,
    declined_output,
)
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    OrderUse,
    Output,
    Tool,
    bad_arguments_output,
    case_closed_output,
    no_such_order_output,
    proposal_key,
    text,
)
from mailagent.workflows.tools.withdraw_refund import find_in_the_way, refund_waits_output

WISH_MAX_LENGTH = 500
# Reasons to decline that hold only because a refund that waits holds the money.
_MONEY_HELD = frozenset({DeclineReason.NOTHING_LEFT, DeclineReason.ABOVE_BALANCE})
MAILS_SEARCHED = 20
NOT_THEIR_WORDS = (
    "wish: copy it word for word from what the customer wrote, not from what they quote or forward; if it"
    " stands only there, ask them to write it"
)


class RequestChange(Arguments):
    order_id: Id
    kind: Literal["exchange", "replacement", "change_address"]
    items: list[Item] = Field(
        max_length=ITEMS_MAX, description="Empty for a change of address; that is for the order."
    )
    reason: Annotated[RefundReason, Strict(False)]
    wish: Annotated[str, text(WISH_MAX_LENGTH, lines=True)] | None = Field(
        description="The new address, or what they want instead, such as the size: copied word for word"
        " from the customer's mail; null if they did not say."
    )


Part = Annotated[str, text(WISH_MAX_LENGTH, lines=True)] | None


class AddressParts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Part
    street: Part
    extra: Part
    zip: Part
    city: Part
    province: Part
    country: Part


class RequestChangeBySource(RequestChange):
    address: AddressParts = Field(
        description="The parts of a new address, to the letter as in `wish`: each word of it in one part, null"
        " for what is not there. `extra`: a second line. All null otherwise."
    )


def request_change(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Decide on what the model asks for, under the order's lock, and record the task."""
    connection = reader.connection
    order = orders.lock_of_conversation(connection, arguments["order_id"], reader.conversation_id)
    if order is None:
        return no_such_order_output(arguments["order_id"])
    wanted = _read(arguments)
    items = sorted((each.item_id, each.quantity or 0) for each in wanted.items)
    key = proposal_key(reader, order.order_id, wanted.kind, items, wanted.wish)
    same = remedies.find_of_proposal(connection, key)
    if same is not None:
        return requested_output(same)
    if not is_waiting(connection, reader.mail_ids):
        return case_closed_output()
    problem = _find_problem(reader, order, wanted)
    return problem if problem is not None else _request(reader, order, wanted, key)


@dataclass(frozen=True, slots=True)
class _Wanted:
    kind: RemedyKind
    items: tuple[WantedItem, ...]
    reason: RefundReason
    wish: str | None
    address: NewAddress | None


def _read(arguments: Mapping[str, Any]) -> _Wanted:
    kind = RemedyKind(arguments["kind"])
    items = () if kind is RemedyKind.CHANGE_ADDRESS else arguments["items"]
    return _Wanted(
        kind,
        tuple(WantedItem(**item) for item in items),
        RefundReason(arguments["reason"]),
        arguments["wish"],
        _read_address(arguments.get("address") or {}),
    )


def _read_address(parts: Mapping[str, str | None]) -> NewAddress | None:
    street, postal_code, city = (parts.get(name) for name in ("street", "zip", "city"))
    if not (street and postal_code and city):
        return None
    others = {name: parts.get(name) for name in ("name", "extra", "province", "country")}
    return NewAddress(street, postal_code, city, **others)


def _find_problem(reader: Reader, order: Order, wanted: _Wanted) -> Output | None:
    """Return what is wrong with the arguments; None if nothing is."""
    if wanted.kind not in services.current().policy.remedies.offered:
        return not_offered_output()
    if wanted.kind is RemedyKind.CHANGE_ADDRESS and wanted.wish is None:
        return bad_arguments_output("wish: the new address is missing; ask for it")
    if wanted.kind is not RemedyKind.CHANGE_ADDRESS and not wanted.items:
        return bad_arguments_output("items: name those that it is about")
    if wanted.wish is not None and not quotes(wanted.wish, _list_texts(reader)):
        return bad_arguments_output(NOT_THEIR_WORDS)
    try:
        price_lines(order, wanted.items, ())
    except ItemsProblem as problem:
        return bad_items_output(problem)
    return None


def _list_texts(reader: Reader) -> list[str]:
    """Return what the customer provably wrote in this conversation."""
    connection, address = reader.connection, reader.conversation.customer_email
    mails = inbound.list_latest(
        connection, reader.conversation_id, MAILS_SEARCHED, also=reader.mail_ids
    )
    ours = outbound.list_texts_to(connection, address)
    return [
        _own_words(mail, ours)
        for mail in mails
        if mail.identity.proven or mail.mail_id in reader.mail_ids
    ]


def _own_words(mail: InboundMail, our_texts: Sequence[str]) -> str:
    """Return the customer's own words: not what they quote or forward, and not an answer's subject."""
    written = "" if shows_nothing(mail.body) else own_words(mail.body, our_texts, mail.subject)
    is_theirs = not (mail.references or is_answer(mail.subject))
    return f"{mail.subject if is_theirs else ''}\n{written}"


def _request(reader: Reader, order: Order, wanted: _Wanted, key: str) -> Output:
    connection, item_ids = reader.connection, [each.item_id for each in wanted.items]
    earlier = refunds.list_of_order(connection, order.order_id)
    lines = tuple(line for line in price_lines(order, wanted.items, earlier) if not line.is_rest)
    units, older = count_units(order, lines), list[Remedy]()
    left = count_units(order, price_lines(order, [WantedItem(each) for each in item_ids], earlier))
    before = remedies.list_of_order(connection, order.order_id)
    later = inbound.list_later(connection, [each.mail_id for each in before], reader.mail_ids)
    for known in reversed(before):
        if not known.touches(wanted.kind, item_ids):
            continue
        if known.kind is not wanted.kind and known.items and units + known.units <= left:
            continue  # it is for other units of the same items
        if known.mail_id in later and known.status in STANDING:
            return asked_before_output(known, "in a later mail, perhaps otherwise")
        is_alike = known.kind is wanted.kind and wanted.wish in (None, known.wish)
        is_same = known.is_open and is_alike and not units - known.units
        # One mail makes one request, even if the model contradicts itself. A nudge has no wish.
        if known.mail_id == reader.mail_ids[-1] or is_same:
            return asked_before_output(known)
        if known.can_be_withdrawn:
            older.append(known)
    asked = Asked(order, lines, Money(0, order.currency), wanted.reason, earlier)
    return _decide(reader, wanted, key, asked, older)


def _replace(reader: Reader, older: Sequence[Remedy], units: Counter[str]) -> None:
    """Record that the customer wants something else for these units. The rest of an older task stays."""
    for each in older:
        if rest := each.units - units:
            ending.keep_only(
                reader.connection, each, rest, "The customer wants another thing instead."
            )
        else:
            status, mail_id = RemedyStatus.WITHDRAWN, reader.mail_ids[-1]
            ending.close(reader.connection, each, status, audit.CUSTOMER, mail_id=mail_id)


def _decide(
    reader: Reader, wanted: _Wanted, key: str, asked: Asked, older: Sequence[Remedy]
) -> Output:
    """Have the policy decide, and record the task instead of the `older` ones."""
    connection, order, lines = reader.connection, asked.order, asked.lines
    if wanted.kind is RemedyKind.CHANGE_ADDRESS:
        left = left_to_ship(order.shipments, order.units)
        is_sent = left is not None and not any(left.values())
        if order.status is not OrderStatus.PENDING or is_sent:
            return decline_as_late(reader, order, wanted.kind)
        _replace(reader, older, Counter())
        return _record(reader, order, wanted, key, (), ())
    asked = claims.by_mails(connection, asked, reader.conversation_id, reader.mails)
    # A free gift, or what was not paid for, can be sent again although there is no money to refund.
    despite = {DeclineReason.NOTHING_LEFT} if lines else set[DeclineReason]()
    granted = count_units(order, lines)
    held = {each.item_id for each in wanted.items if each.item_id not in granted}
    waiting = find_in_the_way(reader, asked.earlier, held)
    if waiting is not None:
        freed = without(asked, wanted.items, waiting)
        facts, decision = proposal.consider(connection, freed, reader.conversation_id, _MONEY_HELD)
        if not isinstance(decision, Declined):
            return refund_waits_output(reader, waiting, count_units(order, freed.lines))
    if waiting is not None and not lines:
        asked = freed
    else:
        facts, decision = proposal.consider(connection, asked, reader.conversation_id, despite)
    if isinstance(decision, Declined):
        proposed = Proposal(reader.conversation_id, reader.mail_ids[-1], key)
        proposal.decline(connection, proposed, asked, facts, decision)
        return declined_output(decision, order.order_id)
    if older:  # without them, a manager may not be needed
        _replace(reader, older, count_units(order, lines))
        _, decision = proposal.consider(connection, asked, reader.conversation_id, despite)
    why = decision.reasons if isinstance(decision, NeedsManager) else ()
    return _record(reader, order, wanted, key, lines, tuple(each.value for each in why))


def decline_as_late(reader: Reader, order: Order, kind: RemedyKind) -> Output:
    """Record that it is too late for a remedy, and return what the model is told."""
    details = {
        "reason": DeclineReason.TOO_LATE.value,
        "mail_id": reader.mail_ids[-1],
        "asked_for": kind.value,
    }
    now = services.current().now()
    audit.record(reader.connection, now, audit.POLICY, audit.DECLINED, order.order_id, details)
    return declined_output(Declined(DeclineReason.TOO_LATE), order.order_id)


def _record(
    reader: Reader,
    order: Order,
    wanted: _Wanted,
    key: str,
    lines: Sequence[RefundLine],
    why: tuple[str, ...],
) -> Output:
    values = {"wish": wanted.wish, "reason": wanted.reason.value, "policy_reasons": why}
    values |= _by_source(reader, order, wanted)
    return request(reader, order, wanted.kind, key, items=items_of(order, lines), **values)


def _by_source(reader: Reader, order: Order, wanted: _Wanted) -> dict[str, Any]:
    """Return the fields with which the shop's system is asked to change the address; none if a person has to. A
    second change of an order is for a person, who sees what became of the first."""
    live, address = services.current(), wanted.address
    policy, is_task = live.policy, dict[str, Any]()
    if wanted.kind is not RemedyKind.CHANGE_ADDRESS or address is None or wanted.wish is None:
        return is_task
    if live.order_source is None or not policy.remedies.changes_addresses or policy.drafts_refunds:
        return is_task
    known = remedies.list_of_order(reader.connection, order.order_id)
    is_second = any(each.kind is wanted.kind for each in known)
    if is_second or not has_all(address, wanted.wish, _list_texts(reader)):
        return is_task
    return {"status": RemedyStatus.ASKED, "address": asdict(address)}


def request(reader: Reader, order: Order, kind: RemedyKind, key: str, **values: Any) -> Output:
    """Record a remedy, and return what the model reads. `values`: its fields that differ from a task's; the
    team is told of a task. If a later mail of the customer overtook it, it becomes a manager's task."""
    live, connection = services.current(), reader.connection
    if is_overtaken(connection, order.order_id, reader.mail_ids):
        why = values.get("policy_reasons") or (ManagerReason.WITHDRAWN_LATER.value,)
        values |= {"status": RemedyStatus.TASK, "address": None, "policy_reasons": why}
    standard: dict[str, Any] = {
        "remedy_id": new_id("remedy"),
        "kind": kind,
        "status": RemedyStatus.TASK,
        "order_id": order.order_id,
        "conversation_id": reader.conversation_id,
        "mail_id": reader.mail_ids[-1],
        "policy_version": policies.record(connection, live.policy, live.now()),
        "requested_at": live.now(),
        "due_at": ending.next_due_at(),
    }
    remedy = Remedy(**(standard | values))
    remedies.record(connection, remedy, key)
    details = {"kind": kind.value, "order_id": order.order_id, "mail_id": remedy.mail_id}
    elsewhere = external_refunds.given_back(connection, order.order_id, order.currency)
    details["elsewhere"] = str(elsewhere)  # a task stops if it grows
    audit.record(connection, live.now(), audit.AGENT, "request made", remedy.remedy_id, details)
    if remedy.status is RemedyStatus.TASK:
        _tell_team(connection, remedy)
    return requested_output(remedy)


def _tell_team(connection: sa.Connection, remedy: Remedy) -> None:
    what = REMEDY_KINDS[remedy.kind].capitalize()
    lines = [
        *(f"{item.quantity} × {item.name}" for item in remedy.items),
        "A manager has to do it." if remedy.needs_manager else "Please do it.",
        *(["The parcel may leave at any time."] if remedy.kind is RemedyKind.CANCEL else []),
        f"Do it by {tell_moment(remedy.due_at)}, and say so: the customer then gets a mail.",
        f"What is wanted: {services.current().shop.public_url}/ops/tasks",
    ]
    tell_team(connection, f"task:{remedy.remedy_id}", f"{what}, order {remedy.order_id}", lines)
    if remedy.needs_manager:
        tell_managers_of_task(connection, remedy)


def requested_output(remedy: Remedy) -> Output:
    """Return the answer for a remedy that is on record, asked for now or before."""
    return {
        "outcome": remedy.status.value,
        "facts": [f"remedy/{remedy.order_id}"],
        "order_id": remedy.order_id,
        "items": [item.name for item in remedy.items],
        "say": "Name the fact, which tells the customer its state. Promise nothing beside it.",
    }


def asked_before_output(remedy: Remedy, when: str = "before") -> Output:
    """Return the answer for a remedy that was asked for before, so that nothing new is."""
    output = requested_output(remedy)
    say = f"This was asked for {when}; nothing new was asked for now."
    more = "What is not under quantities is not in it: if they want more, call hand_over."
    told = {"quantities": dict(remedy.units)} if remedy.items else {}
    return output | told | {"say": f"{say} {output['say']} {more if told else ''}".strip()}


def not_offered_output() -> Output:
    return {"error": "not_offered", "say": "This shop does not offer that: call hand_over."}


TOOL = Tool(
    "request_change",
    RequestChange,
    "Ask the shop's people to exchange or replace items of an order, or to change the delivery address of an"
    " order that is not shipped. Call it once per order and kind, with all items together.",
    request_change,
    order_use=OrderUse.DECIDE,
    is_offered=lambda policy: bool(policy.remedies.offered - {RemedyKind.CANCEL}),
    arguments_for=lambda policy: (
        RequestChangeBySource if policy.remedies.changes_addresses else RequestChange
    ),
)
