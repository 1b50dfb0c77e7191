"""Who runs a command, for the audit log."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from mailagent import services
from mailagent.domain.text import is_one_line
from mailagent.store import audit

LONGEST_NAME = 64


def actor() -> str:
    """Return `command line`, with the name of the user if it is known."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # In a container the user id may have no name.
        return "command line"
    name = name.strip()[:LONGEST_NAME]
    return f"command line ({name})" if name and is_one_line(name) else "command line"


def record_act(action: audit.Action, subject: str, details: Mapping[str, Any]) -> None:
    """Record an action of this command in the audit log."""
    live = services.current()
    with live.database.transaction() as connection:
        audit.record(connection, live.now(), actor(), action, subject, details)
