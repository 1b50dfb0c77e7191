"""Views: a person of the team asks for a refund, item by item. The policy decides and managers approve, as when
the agent asks."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.circuit_breaker import BreakerState, breaker_state
from mailagent.domain.orders.freshness import is_fresh
from mailagent.domain.refunds.escalation import list_candidates
from mailagent.domain.refunds.labels import DECLINE_REASONS, MANAGER_REASONS
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Approved, Decision, Declined, NeedsManager
from mailagent.domain.refunds.policy_rules import RefundFacts
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundReason,
    WantedItem,
    price_lines,
)
from mailagent.mailers.approval_routing import is_one_of
from mailagent.proposals import proposal
from mailagent.proposals.claims import by_person
from mailagent.proposals.facts import Asked, shipping_of
from mailagent.proposals.proposal import Proposal
from mailagent.store.ids import new_id
from mailagent.store.mail import assignments, conversations, inbound, suppressions
from mailagent.store.operations import circuit_breakers
from mailagent.store.orders import problems
from mailagent.store.refunds import orders, refunds
from mailagent.web.console.conversations.acts import back_to
from mailagent.web.console.conversations.pages import ONCE
from mailagent.web.console.labels import REASONS, money
from mailagent.web.console.page import found, page
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs
from mailagent.web.language import _, translate

blueprint = Blueprint("ops_refunding", __name__)

PATH = "/ops/conversations/<conversation_id>/refund/<path:order_id>"
MAILS_SEARCHED = 50
# A look-up that takes longer goes on, and the page shows the stored order.
LOOK_UP_SECONDS = 4.0

# A message of the page.
NO_MANAGER = (
    "A manager other than you has to approve it, and MANAGER_EMAILS has too few of them. Let a"
    " colleague ask for the refund, or have a manager added."
)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The result before it is recorded: the amount, and what the policy would decide."""

    facts: RefundFacts
    decision: Decision
    managers: tuple[str, ...]  # who may decide on it

    @property
    def amount(self) -> str:
        return money(self.facts.amount.minor, self.facts.amount.currency)

    @property
    def words(self) -> list[str]:
        match self.decision:
            case Approved():
                rules = services.current().policy.return_first
                if rules and self.facts.reason in rules.reasons:
                    return [_("It is paid when the goods are back.")]
                return [_("It is approved at once.")]
            case Declined() as declined:
                return [_("The policy declines it."), translate(DECLINE_REASONS[declined.reason])]
            case NeedsManager() if self.is_refused:
                return [translate(NO_MANAGER)]
            case needs_manager:
                reasons = [translate(MANAGER_REASONS[each]) for each in needs_manager.reasons]
                return [_("A manager is asked first."), *reasons]

    @property
    def is_refused(self) -> bool:
        if isinstance(self.decision, NeedsManager):
            return len(self.managers) <= self.decision.four_eyes
        return isinstance(self.decision, Declined)


@blueprint.get(PATH)
@needs(Permission.ANSWER)
def show(conversation_id: str, order_id: str) -> Response:
    """Show what can be refunded of an order."""
    _look_up(conversation_id, order_id)
    with services.current().database.snapshot() as connection:
        conversation = found(conversations.find(connection, conversation_id), "conversation")
        order = orders.find_of_conversation(connection, order_id, conversation_id)
        return _page(connection, conversation, found(order, "order")[0])


@blueprint.post(PATH)
@needs(Permission.ANSWER)
def propose(conversation_id: str, order_id: str) -> Response:
    """Ask for a refund, if the person has seen its amount now; else compute the amount and show it."""
    database, key = services.current().database, _key(conversation_id)
    with database.snapshot() as connection:
        if refunds.list_of_proposal(connection, order_id, key)[1] is not None:
            return back_to(conversation_id)  # a second click does not wait for the shop's system
    _look_up(conversation_id, order_id)
    with database.transaction() as connection:
        conversation = found(conversations.find(connection, conversation_id), "conversation")
        # Lock the order first, as everywhere.
        locked = orders.lock_of_conversation(connection, order_id, conversation_id)
        order = found(locked, "order")
        earlier, same = refunds.list_of_proposal(connection, order.order_id, key)
        if same is not None:
            return back_to(conversation_id)
        try:
            proposed = _parse_proposal(connection, conversation, order, key)
            asked = _parse_asked(order, earlier, proposed.asked_at)
            asked = by_person(connection, asked, conversation_id)
        except FormProblem as problem:
            return _page(connection, conversation, order, problem=str(problem))
        outlook = Outlook(
            *proposal.consider(connection, asked, conversation_id), _managers(conversation, order)
        )
        if request.form.get("amount") != outlook.amount:
            return _page(connection, conversation, order, outlook)
        if isinstance(outlook.decision, Declined):
            proposal.decline(connection, proposed, asked, outlook.facts, outlook.decision)
        elif not outlook.is_refused:
            proposal.record(connection, proposed, asked, outlook.facts, outlook.decision)
            return back_to(conversation_id)
        return _page(connection, conversation, order, outlook)


def _look_up(conversation_id: str, order_id: str) -> None:
    with services.current().database.snapshot() as connection:
        known = orders.find_of_conversation(connection, order_id, conversation_id)
    if known is not None:
        wait_for_look_up(known[0])


def wait_for_look_up(order: Order) -> None:
    """Let a worker look the order up at its source, and wait for it a few seconds; but not if it is fresh, if
    the source is away, or if its customer was erased, whom that could bring back. Web processes call no other
    system."""
    live = services.current()
    source, client = live.providers.orders, live.workflow_client
    erased = suppressions.is_erased(order.customer_email)
    if source is None or erased or is_fresh(order, live.now()):
        return
    with live.database.transaction() as connection:
        breaker = circuit_breakers.find(connection, source)
        if breaker_state(breaker, live.now()) is BreakerState.OPEN:
            return
        run_id = client.queue.enqueue_look_up(connection, order.order_id, live.now())
    ends_at = time.monotonic() + LOOK_UP_SECONDS
    while time.monotonic() < ends_at:
        time.sleep(0.2)
        run = client.runs.find_run(run_id)
        if run is None or not run.is_active:
            return


def _managers(conversation: Conversation, order: Order) -> tuple[str, ...]:
    besides = (order.customer_email, conversation.customer_email, current_person().email)
    return list_candidates(services.current().shop.manager_emails, besides)


def _key(conversation_id: str) -> str:
    """Return the key of the form, by which it makes only one refund even if it is sent twice."""
    text = f"person:{conversation_id}:{request.form.get('once', '')}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _parse_proposal(
    connection: sa.Connection, conversation: Conversation, order: Order, key: str
) -> Proposal:
    """Return the proposal of the logged-in person, in answer to the customer's last mail that is proven. The
    customer asked by the first one since the order was delivered that is still unanswered, else by the last one
    since then; without one they ask now."""
    email, conversation_id = current_person().email, conversation.conversation_id
    if not ONCE.fullmatch(request.form.get("once", "")):
        raise FormProblem("once", _("The form was incomplete. Please send it again."))
    if is_one_of((conversation.customer_email,), email):
        raise FormProblem(
            "once", _("This is your own order. A colleague has to ask for the refund.")
        )
    mails = inbound.list_latest(connection, conversation_id, MAILS_SEARCHED)
    proven = [mail for mail in mails if mail.identity.proven]
    if not proven:
        raise FormProblem(
            "once",
            _(
                "No mail here is proven to be the customer's. Give the conversation to the agent, which asks"
                " them to confirm their address."
            ),
        )
    since = order.delivered_at or order.placed_at
    asked_at = assignments.first_unseen_at(connection, conversation, since)
    if asked_at is None and proven[-1].received_at >= since:
        asked_at = proven[-1].received_at
    return Proposal(conversation_id, proven[-1].mail_id, key, email, asked_at=asked_at)


def _parse_asked(order: Order, earlier: tuple[Refund, ...], asked_at: datetime | None) -> Asked:
    """Return the units that the form asks for, and their worth. Raises FormProblem."""
    typed = {line.item_id: request.form.get(f"units:{line.item_id}", "") for line in order.lines}
    if not all((units.isdecimal() and len(units) < 7) or not units for units in typed.values()):
        raise FormProblem("units", _("Write how many as a number, such as 1."))
    wanted = [WantedItem(item, int(units)) for item, units in typed.items() if int(units or 0)]
    if not wanted:
        raise FormProblem("units", _("Say of at least one item how many."))
    if request.form.get("reason") not in tuple(RefundReason):
        raise FormProblem("reason", _("Say why the money goes back."))
    try:
        lines = price_lines(order, wanted, earlier)
    except ItemsProblem as problem:
        raise FormProblem(
            "units", _("Nothing was done: %(problem)s.", problem=problem)
        ) from problem
    reason = RefundReason(request.form["reason"])
    shipping = shipping_of(order, lines, earlier)
    return Asked(order, lines, shipping, reason, earlier, asked_at=asked_at)


def _page(
    connection: sa.Connection,
    conversation: Conversation,
    order: Order,
    outlook: Outlook | None = None,
    problem: str = "",
) -> Response:
    earlier = refunds.list_of_order(connection, order.order_id)
    once = request.form.get("once", "")
    live = services.current()
    is_stale = outlook is not None and request.form.get("amount", outlook.amount) != outlook.amount
    return page(
        "ops/refunding.html",
        422 if problem else 409 if is_stale else 200,
        conversation=conversation,
        order=order,
        items=_items(order, earlier),
        order_as_of=order.seen_at if live.order_source else None,
        wrong_answer=problems.find_answer(connection, order.order_id)
        if live.order_source
        else None,
        is_old=live.order_source is not None and not is_fresh(order, live.now()),
        reasons=REASONS,
        outlook=outlook,
        is_stale=is_stale,
        problem=problem,
        once=once if ONCE.fullmatch(once) else new_id("once"),
    )


def _items(order: Order, earlier: tuple[Refund, ...]) -> list[dict[str, Any]]:
    """Return each item of an order, with how many units are left, and what these are worth."""
    items = []
    for item_id in dict.fromkeys(line.item_id for line in order.lines):
        own = [line for line in order.lines if line.item_id == item_id]
        left = price_lines(order, [WantedItem(item_id)], earlier)
        worth = sum(line.amount.minor for line in left)
        items.append(
            {
                "item_id": item_id,
                "name": own[0].name,
                "bought": sum(line.quantity for line in own),
                "left": sum(line.quantity for line in left),
                "worth": money(worth, order.currency),
                "typed": request.form.get(f"units:{item_id}", "0"),
            }
        )
    return items
