"""What a server adds to an error stays out of logs; what is wrong is still said."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database
from mailagent.store.errors import without_details
from tests.cast import NOW


def test_a_row_that_is_refused_is_not_quoted(database: Database) -> None:
    values: dict[str, Any] = {
        "actor": "nobody",
        "action": "canary",
        "subject": None,
        "details": {},
        "at": NOW,
    }
    with pytest.raises(sa.exc.IntegrityError) as raised, database.transaction() as connection:
        connection.execute(schema.audit.insert().values(**values))
    told = f"{raised.value} {raised.value.orig}"
    assert "audit" in told
    assert "canary" not in told


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("null value in x\nDETAIL:  Failing row (a\nb).", "null value in x"),
        ("bad\nLINE 1: SELECT 'a'\n        ^\nHINT:  none\n[SQL: SELECT]", "bad\n[SQL: SELECT]"),
        ("no such table: x", "no such table: x"),
    ],
)
def test_only_what_was_added_is_left_out(said: str, kept: str) -> None:
    assert without_details(said) == kept
