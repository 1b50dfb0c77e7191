"""The files of our mails. We store them, so that each attempt sends the same bytes, and delete them with the
mail's text."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.store import schema
from mailagent.store.database import Row

_files, _mails = schema.outgoing_files, schema.outbound_mails


def record(connection: sa.Connection, outbound_id: str, files: Sequence[OutgoingFile]) -> None:
    rows = [
        {
            "outbound_id": outbound_id,
            "number": number,
            "name": file.name,
            "size_bytes": len(file.content),
            "content": file.content,
        }
        for number, file in enumerate(files)
    ]
    if rows:
        connection.execute(_files.insert(), rows)


def load(connection: sa.Connection, outbound_id: str) -> tuple[OutgoingFile, ...]:
    query = sa.select(_files.c.name, _files.c.content).order_by(_files.c.number)
    rows = connection.execute(query.where(_files.c.outbound_id == outbound_id))
    return tuple(OutgoingFile(row.name, bytes(row.content)) for row in rows)


def find(
    connection: sa.Connection, conversation_id: str, outbound_id: str, number: int
) -> OutgoingFile | None:
    """Return file `number` of one of our mails, if the mail belongs to this conversation; else None."""
    query = (
        sa.select(_files.c.name, _files.c.content)
        .join(_mails, _mails.c.outbound_id == _files.c.outbound_id)
        .where(
            _mails.c.conversation_id == conversation_id,
            _files.c.outbound_id == outbound_id,
            _files.c.number == number,
        )
    )
    row = connection.execute(query).one_or_none()
    return OutgoingFile(row.name, bytes(row.content)) if row else None


def list_of(connection: sa.Connection, outbound_ids: Sequence[str]) -> dict[str, list[Row]]:
    """Return `number`, `name` and `size_bytes` of the files of each of these mails."""
    query = (
        sa.select(_files.c.outbound_id, _files.c.number, _files.c.name, _files.c.size_bytes)
        .where(_files.c.outbound_id.in_(outbound_ids))
        .order_by(_files.c.outbound_id, _files.c.number)
    )
    found: dict[str, list[Row]] = {}
    for row in connection.execute(query):
        found.setdefault(row.outbound_id, []).append(row)
    return found
