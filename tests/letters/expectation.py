"""What must come of our own letters, as `expected.toml` says."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailagent.domain.mail.message import Identity, MailKind, MailStatus
from tests.cast import ADA, SUPPORT

FOLDER = Path(__file__).parent
NEW_THREAD = "new"
NO_THREAD = "none"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One letter, how it is posted and what must come of it; see the head of `expected.toml`."""

    file: str
    shows: str
    dkim: str = "none"
    spf: str = "pass"
    envelope_from: str = ADA
    envelope_to: str = SUPPORT
    answer: str = "stored"
    kind: str = MailKind.CUSTOMER.value
    identity: str = Identity.SPF.value
    status: str = MailStatus.UNANSWERED.value
    reason: str | None = None
    thread: str = NEW_THREAD
    from_address: str | None = None
    subject: str | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()

    @property
    def mail(self) -> bytes:
        return (FOLDER / self.file).read_bytes()


def load_expectations() -> tuple[Expectation, ...]:
    """Return all letters in the order in which they are posted. Raises TypeError for an unknown key."""
    found = tomllib.loads((FOLDER / "expected.toml").read_text("utf-8"))["letter"]
    return tuple(Expectation(**_frozen(one)) for one in found)


def _frozen(one: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in one.items()}
