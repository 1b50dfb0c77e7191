"""Who works at the command line, for the audit trail."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from mailagent import services
from mailagent.domain.text import is_one_line
from mailagent.store import audit

LONGEST_NAME = 64


def actor() -> str:
    """Return the command line and the name of the login that runs it, as far as that is known."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # In a container a process may have a number that nobody gave a name.
        return "command line"
    name = name.strip()[:LONGEST_NAME]
    return f"command line ({name})" if name and is_one_line(name) else "command line"


def record_act(action: str, subject: str, details: Mapping[str, Any]) -> None:
    """Record what was done at the command line."""
    live = services.current()
    with live.database.transaction() as connection:
        audit.record(connection, live.now(), actor(), action, subject, details)
