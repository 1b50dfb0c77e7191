"""How much mail the last hour let in, over all senders. To count it is to walk through it, so a process counts
once and then lets in a share of what was left before it counts again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HOUR
from mailagent.domain.mail.message import MailStatus
from mailagent.store import schema
from mailagent.store.mail.traffic import is_proven

# A process lets in a tenth of what was left, since others do the same; near the limit each mail is counted.
SHARE = 10
KEPT = timedelta(seconds=60)

_mails = schema.inbound_mails


def _let_in(proven: bool) -> sa.Select[Any]:
    """Count what came since a time and was not parked, but no further than `most`."""
    came = sa.select(sa.literal(1).label("one")).where(
        _mails.c.received_at >= sa.bindparam("since"),
        _mails.c.status != MailStatus.PARKED.value,
        is_proven(proven),
    )
    counted = came.limit(sa.bindparam("most", type_=sa.Integer)).subquery()
    return sa.select(sa.func.count()).select_from(counted)


_LET_IN = {proven: _let_in(proven) for proven in (False, True)}


@dataclass(slots=True)
class _Left:
    """What this process may let in of `most` before it counts again, and when it counted."""

    most: int
    mails: int
    counted_at: datetime

    def holds(self, most: int, now: datetime) -> bool:
        is_fresh = timedelta(0) <= now - self.counted_at < KEPT
        return self.mails > 0 and self.most == most and is_fresh


class Arrivals:
    """Says whether more mail may be let in; for one process, safe to be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left: dict[bool, _Left] = {}

    def _has_room(self, now: datetime, most: int, proven: bool) -> bool:
        """Let one more mail in without a count, and take it off the share, whether it is stored then or not."""
        with self._lock:
            left = self._left.get(proven)
            if left is None or not left.holds(most, now):
                return False
            left.mails -= 1
            return True

    def is_used_up(self, connection: sa.Connection, now: datetime, most: int, proven: bool) -> bool:
        """Say whether `most` mails an hour have been let in, and one more would be too many.

        Mail that is proven to be its sender's and mail that is not are counted apart. Ten processes that all
        count at the same moment keep the limit; many more may go beyond it by a few mails in a hundred.
        """
        if self._has_room(now, most, proven):
            return False
        came = connection.scalar(_LET_IN[proven], {"since": now - HOUR, "most": most}) or 0
        with self._lock:
            self._left[proven] = _Left(most, (most - came) // SHARE, now)
        return bool(came >= most)
