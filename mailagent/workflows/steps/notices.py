"""Notices to the shop's people."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.adapters import gateways
from mailagent.domain.mail.redaction import inert, inert_address
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.refunds.escalation import list_candidates
from mailagent.domain.refunds.labels import MANAGER_REASONS
from mailagent.domain.refunds.policy import ManagerReason, needs_two
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.remedies.remedy import Remedy
from mailagent.domain.text import error_message, tell_error, tell_moment
from mailagent.engine import REFUND
from mailagent.engine.run import Run, tell_failure
from mailagent.store import audit
from mailagent.store.console.run_subjects import list_subjects
from mailagent.store.refunds import orders

_KEPT_UNANSWERED = (
    "They are kept, and the agent does not answer them any more. A customer who writes again is "
    "answered as always."
)
NAME_SHOWN = 80
_TWO_MANAGERS = (
    "The first manager approves it on that page, and sends nothing. Another one does it."
)


def tell_operators(
    connection: sa.Connection,
    title: str,
    lines: Sequence[str],
    key: str,
    button: tuple[str, str] | None = None,
) -> None:
    """Mail a notice to the operators, or to the team if there are none; once for each `key`. `button`: its
    text, and the URL that it opens."""
    live = services.current()
    notice = mailers.Notice(f"operators:{key}", title, lines, button)
    addresses = live.shop.ops_emails or live.shop.team_emails
    written = mailers.write_notice(connection, notice, addresses)
    live.workflow_client.queue.enqueue_deliveries(connection, written)


def tell_team(
    connection: sa.Connection,
    key: str,
    title: str,
    lines: Sequence[str],
    readers: Sequence[str] | None = None,
    button: tuple[str, str] | None = None,
) -> None:
    """Mail a notice to the team, or to `readers` only; once for each `key` and reader. `button`: as in
    `tell_operators`."""
    live = services.current()
    notice = mailers.Notice(key, title, lines, button)
    written = mailers.write_notice(connection, notice, readers or live.shop.team_emails)
    live.workflow_client.queue.enqueue_deliveries(connection, written)


def tell_team_of_unanswered(
    connection: sa.Connection, key: str, title: str, lines: Sequence[str]
) -> None:
    """Mail the team a notice about mails that get no answer; once for each `key`."""
    url = f"{services.current().shop.public_url}/ops/search?kind=mails&state=no_answer"
    tell_team(connection, key, title, [*lines, _KEPT_UNANSWERED], button=("Read them", url))


def list_managers_for(*others: str) -> tuple[str, ...]:
    """Return the managers who may do a task that the team may not, without `others`: the order's customer, and
    who has approved it as the first of two."""
    return list_candidates(services.current().shop.manager_emails, others)


def tell_managers_of_task(connection: sa.Connection, task: Remedy) -> None:
    """Mail a task to the managers who may do it; once."""
    live, order = services.current(), orders.load(connection, task.order_id)
    name = inert(order.customer_name[:NAME_SHOWN])
    prices = {line.item_id: line.unit_price for line in order.lines}
    lines = [
        *(f"{each.quantity} × {each.name}, {prices[each.item_id]} each" for each in task.items),
        f"For: {name} <{inert_address(order.customer_email)}>; paid for the order: {order.paid}",
        *(f"Why a manager: {MANAGER_REASONS[ManagerReason(why)]}" for why in task.policy_reasons),
        *([_TWO_MANAGERS] if needs_two(task.policy_reasons) else []),
        f"Do it by {tell_moment(task.due_at)}, and say so: the customer then gets a mail.",
    ]
    title = f"{REMEDY_KINDS[task.kind].capitalize()}, order {task.order_id}: a manager has to do it"
    button = ("What is wanted", f"{live.shop.public_url}/ops/tasks")
    notice = mailers.Notice(f"managers:{task.remedy_id}", title, lines, button)
    written = mailers.write_notice(connection, notice, list_managers_for(order.customer_email))
    live.workflow_client.queue.enqueue_deliveries(connection, written)


def tell_of_row(row_id: str, error: Exception) -> None:
    """Tell the operators, once, that the sweep failed on a row."""
    live = services.current()
    with live.database.transaction() as connection:
        if audit.told(connection, [row_id]):
            return
        audit.record(connection, live.now(), audit.CLOCK, audit.TOLD, row_id)
        known = list_subjects(connection, [row_id]).get(row_id)
        kind = type(error).__name__
        lines = [
            *([known.tell_masked()] if known else []),
            tell_error(f"{kind}: {error_message(kind, str(error))}"),
            f"Since {tell_moment(live.now())}. The sweep goes on with the others; the log says more.",
        ]
        button = _page_of(known.about) if known else None
        tell_operators(connection, f"The sweep failed on {row_id}", lines, f"row:{row_id}", button)


def _page_of(about: RunAbout) -> tuple[str, str] | None:
    url = services.current().shop.public_url
    if about.refund_id:
        return "See the refund", f"{url}/ops/refunds/{about.refund_id}"
    thread = about.conversation_id
    return ("See the conversation", f"{url}/ops/conversations/{thread}") if thread else None


def explain_failure(run: Run) -> str:
    """Return in one line why a run failed, with the gateway's codes in words."""
    words = tell_failure(run)
    if run.workflow != REFUND:
        return words
    return gateways.explain_codes(words, services.current().gateway.name)
