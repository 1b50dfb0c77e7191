"""What a database server adds to an error: PostgreSQL's DETAIL quotes the row that it refuses, with all that a
customer wrote in it. Errors are logged and kept with their run; that part has no place there."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

# The first line says what is wrong and names the constraint; the rest begins with one of these.
# https://www.postgresql.org/docs/current/protocol-error-fields.html
_ADDED = re.compile(
    r"\n(?:DETAIL|HINT|CONTEXT|QUERY|LINE \d+):.*?(?=\n\[SQL|\n\(Background|\Z)", re.DOTALL
)


def leave_out_details(engine: sa.Engine) -> None:
    """Have errors of this engine say what is wrong without quoting rows."""
    sa.event.listen(engine, "handle_error", _cut)


def _cut(context: Any) -> None:
    for error in (context.original_exception, context.sqlalchemy_exception):
        if error is not None and error.args and isinstance(error.args[0], str):
            error.args = (without_details(error.args[0]), *error.args[1:])


def without_details(text: str) -> str:
    """Return an error's text without what the server added to its first line."""
    return _ADDED.sub("", text)
