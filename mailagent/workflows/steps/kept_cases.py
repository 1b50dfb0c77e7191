"""The cases that the runs of this process tell the model, kept while they go on: the same at each turn.

Of a first mail it is known as soon as the mail is taken up; of others the first ask reads it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mailagent.domain.conversation import Conversation

# More than a worker usually answers at the same time. A case has some thousand letters, forty thousand at most.
KEPT_MOST = 512
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Written:
    """A case as text, and of whose thread it was: erasing a customer changes its address and its token."""

    customer_email: str
    reply_token: str
    text: str
    kept_at: float

    def is_of(self, conversation: Conversation) -> bool:
        here = (conversation.customer_email, conversation.reply_token)
        return here == (self.customer_email, self.reply_token)


class KeptCases:
    """The cases of the runs that this process works on, for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: OrderedDict[tuple[object, ...], _Written] = OrderedDict()

    def find(self, batch: Mapping[str, Any], conversation: Conversation) -> str | None:
        """Return what was written of these mails, unless their customer was erased since."""
        found = self._cases.get(_key(batch))
        if found is None or time.monotonic() - found.kept_at > KEPT_SECONDS:
            return None
        return found.text if found.is_of(conversation) else None

    def keep(self, batch: Mapping[str, Any], conversation: Conversation, text: str) -> None:
        """Keep what was written; not of mails of which nobody knows when they were taken up."""
        if not batch.get("taken_at"):
            return
        now = time.monotonic()
        here = (conversation.customer_email, conversation.reply_token)
        with self._lock:
            self._cases[_key(batch)] = _Written(*here, text, now)
            self._cases.move_to_end(_key(batch))
        self.drop_old()

    def drop_old(self) -> None:
        """Drop what was kept for long enough: also of customers who were erased since."""
        now = time.monotonic()
        with self._lock:
            while self._cases and self._is_first_to_go(now):
                self._cases.popitem(last=False)

    def _is_first_to_go(self, now: float) -> bool:
        oldest = next(iter(self._cases.values()))
        return len(self._cases) > KEPT_MOST or now - oldest.kept_at > KEPT_SECONDS


def _key(batch: Mapping[str, Any]) -> tuple[object, ...]:
    mails = tuple(batch["mail_ids"])
    return batch["conversation_id"], mails, batch["verified"], batch.get("taken_at")


kept = KeptCases()
