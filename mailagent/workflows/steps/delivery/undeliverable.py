"""What happens when a mail of ours did not reach its reader: the next manager is asked, or people are told."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.message import Door, OutboundMail, OutboundStatus, Purpose
from mailagent.domain.mail.redaction import inert, inert_address
from mailagent.domain.refunds.escalation import Skip
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import outbound, suppressions
from mailagent.store.refunds import refunds

logger = logging.getLogger(__name__)

_FATES = {
    OutboundStatus.FAILED: "was not sent",
    OutboundStatus.UNKNOWN: "may or may not have been sent",
    OutboundStatus.UNDELIVERED: "did not arrive",
}


def record_as_lost(
    connection: sa.Connection, row: Row, status: OutboundStatus, action: audit.Action, why: str
) -> OutboundMail:
    """Record `status` of a locked outbound mail that is not sent any more, and act on it as `act_on_lost` does.
    Returns the mail."""
    now, outbound_id = services.current().now(), row.outbound_id
    outbound.set_status(connection, outbound_id, status, now)
    audit.record(connection, now, audit.CLOCK, action, outbound_id, {"status": status.value})
    mail = outbound.load(connection, outbound_id)
    act_on_lost(connection, mail, status, why)
    return mail


def act_on_lost(
    connection: sa.Connection, mail: OutboundMail, status: OutboundStatus, why: str
) -> None:
    """Act on a mail that failed, was not delivered, or whose outcome stays unknown.

    If it asked a manager, ask the next one. Otherwise tell the first of three groups (team, managers,
    operators) that has another address. A lost notice goes to the next group."""
    if mail.purpose is Purpose.LOGIN:
        return  # the person sees that no link comes, and asks again
    if _asks_to_confirm(mail) and suppressions.why_suppressed(connection, mail.to_address):
        return  # spam names senders that do not exist, and this one is not proven
    if mail.purpose is Purpose.NOTICE:
        _pass_on(connection, mail)
        return
    if mail.purpose is Purpose.APPROVAL_REQUEST and mail.refund_id:
        following = mailers.ask_next_manager(
            connection, mail.refund_id, mail.to_address, Skip.UNDELIVERED
        )
        if following is not None:
            services.current().workflow_client.queue.enqueue_delivery(connection, following)
        if mailers.is_waited_for(connection, mail.refund_id):
            return  # another manager is asked
    title = services.current().providers.mail.title
    notice = mailers.Notice(
        f"undelivered:{mail.outbound_id}",
        f"A mail to {inert_address(mail.to_address)} {_FATES[status]}",
        [
            f"Subject: {inert(mail.subject)}",
            f"Why: {inert(why) or f'{title} has not said what became of it'}",
            f"Conversation: {mail.conversation_id or '-'}, refund: {_refunds_of(connection, mail)}",
            "It will not be tried again. Please write to the person yourself if need be.",
        ],
    )
    for group in services.current().shop.groups_of_people:
        others = [address for address in group if address != mail.to_address]
        if others:
            written = mailers.write_notice(
                connection, notice, others, mail.conversation_id, mail.refund_id
            )
            services.current().workflow_client.queue.enqueue_deliveries(connection, written)
            return
    _log_no_reader_left(connection, mail)


def _asks_to_confirm(mail: OutboundMail) -> bool:
    return (mail.reply_to or "").startswith(f"{Door.CONFIRM.value}+")


def _refunds_of(connection: sa.Connection, mail: OutboundMail) -> str:
    if mail.refund_id is None:
        return "-"
    sharing: list[str] = []
    if mail.purpose is Purpose.RECEIPT and mail.conversation_id:
        sharing = refunds.list_sharing_receipt(connection, mail.conversation_id, mail.outbound_id)
    return ", ".join(sorted([mail.refund_id, *sharing]))


def _pass_on(connection: sa.Connection, mail: OutboundMail) -> None:
    """Send a lost notice to the next group, once all copies to the last group are lost."""
    shop = services.current().shop
    key = outbound.row_of(connection, mail.outbound_id).dedup_key.removesuffix(
        f":{mail.to_address}"
    )
    keys = [f"{key}:{address}" for address in (*shop.people, mail.to_address)]
    copies = outbound.list_copies(connection, keys)
    if any(not OutboundStatus(copy.status).lost for copy in copies):
        return
    told = {copy.to_address for copy in copies}
    groups = shop.groups_of_people
    begun = [number for number, group in enumerate(groups) if told.intersection(group)]
    last = max(begun, default=-1)
    # After the last group come the groups before it: a notice to operators goes back to the team.
    others = [*groups[last + 1 :], *groups[: max(last, 0)]]
    following = next((group for group in others if not told.intersection(group)), ())
    if not following:
        _log_no_reader_left(connection, mail)
    copied = [mailers.copy_notice(connection, mail, key, address) for address in following]
    services.current().workflow_client.queue.enqueue_deliveries(connection, copied)


def _log_no_reader_left(connection: sa.Connection, mail: OutboundMail) -> None:
    logger.error(
        "mail=%s event=lost: no team member, manager or operator is left to tell; correct their addresses and "
        "run `flask check`",
        mail.outbound_id,
    )
    audit.record(
        connection, services.current().now(), audit.CLOCK, "nobody could be told", mail.outbound_id
    )
