"""What people of the shop read to get into the console."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from mailagent.domain.mail.message import Purpose
from mailagent.mailers.recording import Letter, record_letter
from mailagent.store.ids import new_id


def write_login_link(connection: sa.Connection, email: str, url: str, lives: timedelta) -> str:
    """Write the link to log in with; `lives` is how long it works."""
    letter = Letter(
        Purpose.LOGIN,
        "login_link",
        {"link_url": url, "minutes": int(lives.total_seconds() // 60)},
        to_address=email,
        dedup_key=new_id("login"),
    )
    return record_letter(connection, letter)
