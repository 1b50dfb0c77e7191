"""Connections of the pool that have rested are tried before they are used; those in constant use are not.

SQLAlchemy's `pool_pre_ping` asks the server each time, which is a journey more for each transaction. A
connection that the server closed within its last second in use fails its next user, as one does that is cut
in the middle: steps try again, webhooks are sent again.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa

RESTED_SECONDS = 1.0

_RETURNED_AT = "mailagent_returned_at"


def try_rested(engine: sa.Engine) -> None:
    """Have the engine's pool ask the server whether a connection that was not used for a second still is
    one. A dead one takes all of its age with it, as with `pool_pre_ping`."""

    def note(_connection: Any, record: Any) -> None:
        record.info[_RETURNED_AT] = time.monotonic()

    def look(connection: Any, record: Any, _proxy: Any) -> None:
        returned_at = record.info.pop(_RETURNED_AT, None)
        if returned_at is None or time.monotonic() - returned_at < RESTED_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as problem:
            raise sa.exc.InvalidatePoolError from problem

    sa.event.listen(engine, "checkin", note)
    sa.event.listen(engine, "checkout", look)
