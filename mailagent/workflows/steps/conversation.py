"""Effects of the conversation workflow: what the agent sees, what it may do, and its answer.

The model's words decide nothing here: arguments were checked by `agent`, amounts and permissions come
from rows under lock, and a reply leaves only if it agrees with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypedDict

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import loop, prompt, reply_check, tool_outputs, tools
from mailagent.agent.reply_facts import ReplyFacts, gather_facts
from mailagent.domain.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail import InboundMail, MailKind, MailStatus
from mailagent.domain.money import Money
from mailagent.domain.order import Order
from mailagent.domain.policy import Approved, Decision, Declined, NeedsManager, RefundFacts, decide
from mailagent.domain.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
)
from mailagent.store import approvals, audit, conversations, mailbox, orders, outbox, refunds
from mailagent.store.ids import new_id
from mailagent.workflows.steps import letters
from mailagent.workflows.steps.recording import step

HISTORY_MAILS = 20
ORDERS_SHOWN = 10
ORDERS_CHECKED = 1000


class Batch(TypedDict):
    """The mails that one run works on together; either all of their senders are proven or none.

    `task`: `answer` them, `pass_on` to people, `forward` the team's words, or `stop` a loop.
    """

    conversation_id: str
    mail_ids: list[str]
    verified: bool
    task: str


@step
def take_batch(conversation_id: str) -> Batch | None:
    """Find what is unanswered in a thread; None when nothing is."""
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, conversation_id)
        waiting = mailbox.list_unanswered(connection, conversation_id)
        if not waiting:
            return None
        first = waiting[0]
        task = _task(connection, conversation, first)
    # A forged mail must not be answered along with an honest one as if both were honest.
    together = [
        mail
        for mail in waiting
        if (mail.kind, mail.identity.proven) == (first.kind, first.identity.proven)
    ]
    return Batch(
        conversation_id=conversation_id,
        mail_ids=[mail.mail_id for mail in together],
        verified=first.identity.proven,
        task=task,
    )


def _task(connection: sa.Connection, conversation: Conversation, mail: InboundMail) -> str:
    if mail.kind is MailKind.TEAM:
        return "forward"
    if conversation.handed_over_reason == HandOverReason.FUSE.value:
        return "stop"
    if conversation.status is ConversationStatus.HANDED_OVER:
        return "pass_on"
    return "stop" if _has_blown_the_fuse(connection, conversation) else "answer"


def _has_blown_the_fuse(connection: sa.Connection, conversation: Conversation) -> bool:
    """Whether so many automatic answers went out lately that a machine may be answering them."""
    live = services.current()
    since, limits = live.now() - timedelta(hours=1), live.limits
    in_thread = outbox.count_answers(
        connection, since, conversation_id=conversation.conversation_id
    )
    to_sender = outbox.count_answers(connection, since, address=conversation.customer_email)
    return in_thread >= limits.answers_per_hour or to_sender >= limits.answers_to_sender_per_hour


class OperatorNeededError(Exception):
    """The run cannot go on until an operator has put something right; then it is replayed."""


# --- the model --------------------------------------------------------------------------------


@step
def ask_model(batch: Batch, items: list[dict[str, Any]], spent: dict[str, int]) -> dict[str, Any]:
    """Ask the model what to do next, and say so as plain data.

    `kind` is `call` (use a tool), `again`, `reply`, `wait` or `person`; `items` is what the model is to
    be told next time on top of what it was told, `spent` what the answer has cost.

    Raises OperatorNeededError when no mail can be answered: recorded as this step's error, so that a
    replay begins with asking again.
    """
    live = services.current()
    used = loop.Spent(**spent)
    over = used.why_over(live.budget)
    if over is not None:
        return _move("person", used, reason=over.name, summary="")
    case, address = _case(batch)
    outcome = live.model.ask(
        prompt.instructions(live.shop.name, live.shop.support_address),
        [case, *items],
        tools.TOOLS,
        prompt.PROMPT_VERSION,
        hashlib.sha256(address.encode()).hexdigest()[:32],
    )
    used = used.plus(outcome)
    move = _plain_move(loop.next_move(outcome), used)
    return move | {"items": [*outcome.get("items", []), *move["items"]]}


def _move(kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "items": [], "spent": asdict(used), **more}


def _plain_move(move: loop.Move, used: loop.Spent) -> dict[str, Any]:
    match move:
        case loop.CallTool():
            return _plain_call(move, used)
        case loop.Reply(text):
            return _move("reply", used, text=text)
        case loop.AskAgain():
            return _move("wait", used, after_seconds=loop.pause_seconds(move, used), why=move.why)
        case loop.AskOperator(why):
            raise OperatorNeededError(why)
        case loop.AskPerson(reason, why):
            return _move("person", used, reason=reason.name, summary=why)


def _plain_call(move: loop.CallTool, used: loop.Spent) -> dict[str, Any]:
    call = tools.parse_call(move.name, move.arguments)
    if isinstance(call, tools.Misfit):
        return _move("again", used, items=loop.tool_result_items(move, call.output))
    if isinstance(call, tools.HandOver):
        return _move("person", used, reason=call.reason.name, summary=call.summary)
    return _move(
        "call",
        used,
        tool=move.name,
        arguments=asdict(call),
        call_id=move.call_id,
        other_call_ids=list(move.other_call_ids),
    )


def tool_items(move: Mapping[str, Any], output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model is told about the call in `move`: the tool's output."""
    call = loop.CallTool(move["tool"], "", move["call_id"], tuple(move["other_call_ids"]))
    return loop.tool_result_items(call, output)


def _case(batch: Batch) -> tuple[dict[str, Any], str]:
    """Return the first item the model reads, and the customer's address."""
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        history = _history(connection, conversation, batch["mail_ids"])
    return prompt.case_item(batch["verified"], history, mails), conversation.customer_email


def _history(
    connection: sa.Connection, conversation: Conversation, but: Sequence[str]
) -> list[prompt.PastMail]:
    theirs = mailbox.list_latest(connection, conversation.conversation_id, HISTORY_MAILS)
    ours = outbox.list_to_customer(
        connection, conversation.conversation_id, conversation.customer_email, HISTORY_MAILS
    )
    past = [
        prompt.PastMail(prompt.Author.CUSTOMER, mail.received_at, mail.new_text)
        for mail in theirs
        if mail.mail_id not in but
    ]
    past += [prompt.PastMail(prompt.Author.SHOP, row.created_at, row.text) for row in ours]
    return sorted(past, key=lambda mail: mail.at)


# --- its tools --------------------------------------------------------------------------------


@step
def find_my_orders(batch: Batch, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Look up the orders of whoever wrote: of nobody else, and only if it is known who that is."""
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.snapshot() as connection:
        address = _address(connection, batch)
        found, total = orders.list_of_customer(connection, address, ORDERS_SHOWN)
    return tool_outputs.orders_output(found, total)


@step
def look_at_order(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Look up one order; somebody else's gives the same words as one that does not exist."""
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.snapshot() as connection:
        address = _address(connection, batch)
        order = orders.find_of_customer(connection, arguments["order_id"], address)
        if order is None:
            return tool_outputs.no_such_order_output()
        earlier = refunds.list_of_order(connection, order.order_id)
    return tool_outputs.order_output(order, earlier, services.current().policy)


@step
def propose_refund(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Decide on what the model proposes, under the order's lock, and record what was decided.

    The amount is computed, the policy decides, and the refund's run is rung in the same transaction.
    """
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    wanted = [WantedItem(**item) for item in arguments["items"]]
    with services.current().database.transaction() as connection:
        order = orders.lock(connection, arguments["order_id"])
        if order is None or order.customer_email != _address(connection, batch):
            return tool_outputs.no_such_order_output()
        key = _proposal_key(batch, order.order_id, wanted)
        known = refunds.find_by_proposal(connection, key)
        if known is not None:
            return _proposed_output(known, order)
        if not _is_waiting(connection, batch):
            return tool_outputs.case_closed_output()
        try:
            return _propose(
                connection, batch, order, wanted, RefundReason(arguments["reason"]), key
            )
        except ItemsProblem as problem:
            return tool_outputs.bad_items_output(problem)


def _is_waiting(connection: sa.Connection, batch: Batch) -> bool:
    """Say whether the batch still waits for an answer: a replayed run may be late with its wishes."""
    mails = mailbox.list_by_id(connection, batch["mail_ids"])
    return any(mail.status is MailStatus.UNANSWERED for mail in mails)


def _propose(
    connection: sa.Connection,
    batch: Batch,
    order: Order,
    wanted: Sequence[WantedItem],
    reason: RefundReason,
    key: str,
) -> dict[str, Any]:
    live = services.current()
    earlier = refunds.list_of_order(connection, order.order_id)
    lines = price_lines(order, wanted, earlier)
    same = _already_asked(order, wanted, lines, earlier)
    if same is not None:
        return tool_outputs.already_requested_output(same, order)
    facts = _facts(connection, order, lines, earlier, reason)
    decision = decide(facts, live.policy, live.now())
    if isinstance(decision, Declined):
        return tool_outputs.declined_output(decision, order, live.policy)
    refund = _refund(batch, order, lines, reason, decision)
    _record_refund(connection, refund, order, key, facts)
    return _proposed_output(refund, order)


def _already_asked(
    order: Order,
    wanted: Sequence[WantedItem],
    lines: Sequence[RefundLine],
    earlier: Sequence[Refund],
) -> Refund | None:
    """Return the refund that already covers what is wanted, or that a person said no to."""
    items = {want.item_id for want in wanted}
    touching = [refund for refund in earlier if items & set(refund.item_ids)]
    for refund in reversed(touching):
        if refund.holds_money and not lines:
            return refund
        if refund.status is RefundStatus.REJECTED and set(refund.lines) == set(lines):
            return refund
    return None


def _facts(
    connection: sa.Connection,
    order: Order,
    lines: Sequence[RefundLine],
    earlier: Sequence[Refund],
    reason: RefundReason,
) -> RefundFacts:
    held = orders.held_minor(connection, order.order_id)
    unasked = sum(
        refund.amount.minor
        for refund in earlier
        if refund.holds_money and refund.decided_by == audit.POLICY
    )
    return RefundFacts(
        amount=Money(sum(line.amount.minor for line in lines), order.currency),
        remaining=Money(order.paid.minor - held, order.currency),
        granted_unasked=Money(unasked, order.currency),
        order_status=order.status,
        delivered_at=order.delivered_at,
        reason=reason,
    )


def _refund(
    batch: Batch,
    order: Order,
    lines: tuple[RefundLine, ...],
    reason: RefundReason,
    decision: Decision,
) -> Refund:
    now = services.current().now()
    unasked = isinstance(decision, Approved)
    return Refund(
        refund_id=new_id("refund"),
        order_id=order.order_id,
        conversation_id=batch["conversation_id"],
        mail_id=batch["mail_ids"][-1],
        amount=Money(sum(line.amount.minor for line in lines), order.currency),
        lines=lines,
        item_ids=tuple(_item_ids(order)[line.line_no] for line in lines),
        reason=reason,
        status=RefundStatus.APPROVED if unasked else RefundStatus.AWAITING_APPROVAL,
        requested_at=now,
        policy_reasons=(
            tuple(each.value for each in decision.reasons)
            if isinstance(decision, NeedsManager)
            else ()
        ),
        decided_by=audit.POLICY if unasked else None,
        decided_at=now if unasked else None,
    )


def _record_refund(
    connection: sa.Connection, refund: Refund, order: Order, key: str, facts: RefundFacts
) -> None:
    live = services.current()
    refunds.record(connection, refund, key, _plain(facts), _item_ids(order))
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        approvals.request(
            connection,
            refund.refund_id,
            live.now(),
            live.now() + live.waits.approval_expiry,
        )
    audit.record(
        connection,
        live.now(),
        audit.POLICY,
        f"refund {refund.status.value}",
        refund.refund_id,
        {"order_id": order.order_id, "amount": str(refund.amount)},
    )
    live.doorbell.ring_refund(connection, refund.refund_id, None)


def _plain(facts: RefundFacts) -> dict[str, Any]:
    return {
        "amount": str(facts.amount),
        "remaining": str(facts.remaining),
        "granted_unasked": str(facts.granted_unasked),
        "order_status": facts.order_status.value,
        "delivered_at": facts.delivered_at.isoformat() if facts.delivered_at else None,
        "reason": facts.reason.value,
    }


def _proposed_output(refund: Refund, order: Order) -> dict[str, Any]:
    if refund.decided_by == audit.POLICY:
        return tool_outputs.approved_output(refund, order)
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        return tool_outputs.needs_manager_output(refund, order)
    return tool_outputs.already_requested_output(refund, order)


def _item_ids(order: Order) -> dict[int, str]:
    return {line.line_no: line.item_id for line in order.lines}


def _proposal_key(batch: Batch, order_id: str, wanted: Sequence[WantedItem]) -> str:
    items = sorted((want.item_id, want.quantity or 0) for want in wanted)
    text = json.dumps([batch["conversation_id"], batch["mail_ids"][0], order_id, items])
    return hashlib.sha256(text.encode()).hexdigest()


def _address(connection: sa.Connection, batch: Batch) -> str:
    return conversations.load(connection, batch["conversation_id"]).customer_email


TOOLS: Mapping[str, Callable[[Batch, Mapping[str, Any]], dict[str, Any]]] = {
    "find_my_orders": find_my_orders,
    "look_at_order": look_at_order,
    "propose_refund": propose_refund,
}


# --- the answer -------------------------------------------------------------------------------


class Written(TypedDict):
    """What became of a reply: `written` with the mails to send, or `untrue` with what to tell the model."""

    kind: str
    outbound_ids: list[str]
    items: list[dict[str, Any]]
    spent: dict[str, int]


@step
def write_reply(batch: Batch, text: str, spent: dict[str, int]) -> Written:
    """Write the model's reply as a mail to be sent, if it agrees with the rows."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        if any(mail.status is not MailStatus.UNANSWERED for mail in mails):
            return Written(kind="written", outbound_ids=_answers(mails), items=[], spent=spent)
        facts = _reply_facts(connection, conversation, batch)
        thread = mailbox.list_latest(connection, conversation.conversation_id, HISTORY_MAILS)
        words = "\n".join(f"{mail.subject}\n{mail.body}" for mail in (*thread, *mails))
        problems = reply_check.find_untrue(text, facts, words)
        if problems:
            used = loop.Spent(**spent).plus_unusable_reply()
            items = [loop.correction_item(problems)]
            return Written(kind="untrue", outbound_ids=[], items=items, spent=asdict(used))
        outbound_id = letters.write_reply(connection, conversation, mails, text)
        mailbox.answer(connection, batch["mail_ids"], outbound_id)
        conversations.count_model_use(
            connection, conversation.conversation_id, spent["model_turns"], spent["tokens"]
        )
        audit.record(connection, live.now(), audit.AGENT, "mail answered", mails[-1].mail_id)
    return Written(kind="written", outbound_ids=[outbound_id], items=[], spent=spent)


def _answers(mails: Sequence[InboundMail]) -> list[str]:
    """Return the mails of ours that answer these already: written before a crash, perhaps not sent."""
    return list(dict.fromkeys(mail.answered_by for mail in mails if mail.answered_by))


def _reply_facts(connection: sa.Connection, conversation: Conversation, batch: Batch) -> ReplyFacts:
    """Return what may be said to this customer: nothing about any order to one who is not proven."""
    live = services.current()
    bought: tuple[Order, ...] = ()
    refunded: tuple[Refund, ...] = ()
    if batch["verified"]:
        address = conversation.customer_email
        bought, _ = orders.list_of_customer(connection, address, ORDERS_CHECKED)
        refunded = refunds.list_of_customer(connection, address)
    return gather_facts(
        bought,
        refunded,
        live.policy,
        [past.at for past in _history(connection, conversation, ())]
        + [mail.received_at for mail in mailbox.list_by_id(connection, batch["mail_ids"])],
        live.shop.support_address,
        live.shop.public_url,
    )


@step
def hand_over(batch: Batch, reason: str, summary: str) -> list[str]:
    """Give the conversation to people: tell the customer, and the team with the whole case.

    `reason` is the name of a HandOverReason; `summary` is the model's, or empty.
    """
    live = services.current()
    why = HandOverReason[reason]
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        conversations.hand_over(connection, conversation.conversation_id, why.value, live.now())
        outbound_ids = _answers(mails)
        if any(mail.status is MailStatus.UNANSWERED for mail in mails):
            untrue = why is HandOverReason.REPLY_NOT_TRUE
            told = letters.write_handed_over(connection, conversation, mails, untrue)
            mailbox.answer(connection, batch["mail_ids"], told)
            outbound_ids.append(told)
        audit.record(
            connection,
            live.now(),
            audit.AGENT,
            "conversation handed over",
            conversation.conversation_id,
            {"why": why.value},
        )
        outbound_ids += letters.write_to_team(
            connection,
            conversation,
            why.value,
            summary or None,
            f"hand_over:{batch['mail_ids'][-1]}",
        )
    return outbound_ids


@step
def stop_loop(batch: Batch) -> list[str]:
    """Leave mail unanswered because too much was answered lately; the team is told once."""
    live = services.current()
    why = HandOverReason.FUSE.value
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mailbox.leave_unanswered(connection, batch["mail_ids"], why)
        if conversation.handed_over_reason == why:
            return []
        conversations.hand_over(connection, conversation.conversation_id, why, live.now())
        audit.record(
            connection, live.now(), audit.CLOCK, "fuse blown", conversation.conversation_id
        )
        return letters.write_to_team(
            connection, conversation, why, None, f"fuse:{batch['mail_ids'][-1]}"
        )


# What a team member writes, and nothing else, to give a conversation back.
BACK_TO_AGENT = frozenset({"agent", "@agent", "back to the agent", "back to agent"})


@step
def forward_team_replies(batch: Batch) -> list[str]:
    """Pass the team's answers on to the customer, or the conversation back to the agent."""
    live = services.current()
    outbound_ids = []
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        for mail in mailbox.list_by_id(connection, batch["mail_ids"]):
            if mail.new_text.strip().strip(".!").lower() in BACK_TO_AGENT:
                conversations.give_back(connection, conversation.conversation_id)
                mailbox.leave_unanswered(connection, [mail.mail_id], "gave it back to the agent")
                action = "conversation given back"
            else:
                outbound_id = letters.write_team_reply(connection, conversation, mail)
                mailbox.answer(connection, [mail.mail_id], outbound_id)
                outbound_ids.append(outbound_id)
                action = "customer answered"
            audit.record(
                connection, live.now(), mail.from_address, action, conversation.conversation_id
            )
    return outbound_ids


@step
def pass_on_to_people(batch: Batch) -> list[str]:
    """Mail the team what came in for a conversation that people look after."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mailbox.leave_unanswered(
            connection, batch["mail_ids"], "people look after this conversation"
        )
        return letters.write_to_team(
            connection,
            conversation,
            "the customer wrote again",
            None,
            f"passed_on:{batch['mail_ids'][-1]}",
        )
