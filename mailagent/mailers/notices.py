"""A few lines to people of the shop: something needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import OutboundMail, Purpose
from mailagent.mailers.recording import Letter, record_letter
from mailagent.store.ids import new_id
from mailagent.store.mail import outbound


@dataclass(frozen=True, slots=True)
class Notice:
    """A few lines to people of the shop. `key` says what it is about: once to each of them."""

    key: str
    title: str
    lines: Sequence[str]


def write_notice(
    connection: sa.Connection,
    notice: Notice,
    addresses: Sequence[str],
    conversation_id: str | None = None,
) -> list[str]:
    """Tell people of the shop that something needs them; one copy each, under `key:address`."""
    return [
        record_letter(
            connection,
            Letter(
                Purpose.NOTICE,
                "notice",
                {"title": notice.title, "lines": notice.lines},
                to_address=address,
                dedup_key=f"{notice.key}:{address}",
                conversation_id=conversation_id,
            ),
        )
        for address in addresses
    ]


def copy_notice(connection: sa.Connection, mail: OutboundMail, key: str, address: str) -> str:
    """Write the same notice to somebody else, under `key:address`."""
    live = services.current()
    outbound_id = new_id("outbound")
    copy = replace(
        mail,
        outbound_id=outbound_id,
        message_id=f"{outbound_id}@{live.shop.reply_domain}",
        to_address=address,
    )
    return outbound.record(connection, copy, f"{key}:{address}", live.now())
