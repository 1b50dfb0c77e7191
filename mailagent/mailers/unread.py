"""What the team reads when a refund waits and no manager is there to read the question."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.refund import Refund
from mailagent.mailers.approval_routing import Asking
from mailagent.mailers.notices import Notice, write_notice
from mailagent.store.mail import outbound


def tell_if_unread(connection: sa.Connection, refund: Refund, stands: Asking) -> Sequence[str]:
    """Write, once for each question, that nobody reads the request: all who were asked are passed over
    or away, and so is whoever is left. Returns the mails; none where somebody reads it."""
    if not stands.asks or _is_read(stands):
        return ()
    notice = Notice(
        f"unread:{stands.approval.approval_id}:{stands.question.value}",
        f"Nobody reads the request: refund of {refund.amount}, order {refund.order_id}",
        [
            "A refund waits for a manager, and every manager who may decide on it is away or gets no"
            " mail from us.",
            *(f"{each.manager_email}: {each.skipped_why or 'away'}." for each in stands.asks),
            f"If nobody decides by {stands.approval.expires_at:%Y-%m-%d %H:%M} UTC, it is closed"
            " without a refund.",
            "Please tell one of them, or have somebody who is there put into MANAGER_EMAILS.",
            "You get this mail once.",
        ],
    )
    untold = list_untold(connection, notice, list_helpers(stands.candidates))
    return write_notice(connection, notice, untold, refund.conversation_id)


def _is_read(stands: Asking) -> bool:
    passed_over = {each.manager_email for each in stands.asks if not each.stands}
    return any(each not in stands.away and each not in passed_over for each in stands.candidates)


def list_untold(
    connection: sa.Connection, notice: Notice, readers: Collection[str]
) -> Sequence[str]:
    """Return whoever has not got this notice yet."""
    told = outbound.list_recorded(connection, [f"{notice.key}:{each}" for each in readers])
    return [each for each in readers if f"{notice.key}:{each}" not in told]


def list_helpers(managers: Collection[str]) -> tuple[str, ...]:
    """Return who is told when managers do not read: the team, else the operators, none of them
    themselves."""
    shop = services.current().shop
    for circle in (shop.team_emails, shop.ops_emails):
        others = tuple(address for address in circle if address not in managers)
        if others:
            return others
    return ()
