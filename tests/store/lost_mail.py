"""A mail whose sending has an unknown outcome."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from mailagent.store import schema
from tests.cast import ADA, NOW


def lose_mail(connection: sa.Connection, name: str, minutes: int = 0) -> str:
    """Write a mail that did not arrive, so many minutes after noon."""
    outbound_id = f"outbound_{name}"
    connection.execute(
        schema.outbound_mails.insert().values(
            outbound_id=outbound_id,
            dedup_key=name,
            purpose="notice",
            to_address=ADA,
            from_address="support@shop.example",
            subject="",
            text="",
            message_id=f"{name}@shop.example",
            mail_references=[],
            auto_submitted="auto-generated",
            status="undelivered",
            created_at=NOW + timedelta(minutes=minutes),
        )
    )
    return outbound_id
