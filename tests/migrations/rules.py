"""Which statements of a migration would stop those who write, or old code that still runs.

For PostgreSQL: its manual says of each form of ALTER TABLE which lock it takes and whether it reads the
whole table (sql-altertable, "Notes").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TABLE = r"(?:IF EXISTS )?(?:ONLY )?(\w+)"
_CREATED = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?\w+ ON (\w+)")
_ALTER = re.compile(rf"^ALTER TABLE {_TABLE} (.*)")
_FILL = re.compile(rf"^(?:UPDATE|DELETE FROM) {_TABLE}")
_DROPPED = re.compile(rf"^DROP (?:TABLE|VIEW|SEQUENCE) {_TABLE}")

# What follows ALTER TABLE, and what is wrong with it.
_WRONG: tuple[tuple[str, str], ...] = (
    (r"ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL\b", "old code does not fill it, and old rows have none"),
    (r"ADD COLUMN .*\bDEFAULT \(?\w+\(", "a default that is computed rewrites the table"),
    (r"ADD CONSTRAINT (?!.*\bNOT VALID\b).*\b(CHECK|FOREIGN KEY)\b", "reads the whole table: NOT VALID first"),
    (r"ADD (CONSTRAINT \w+ )?(UNIQUE|PRIMARY KEY) \(", "builds an index: concurrently, then USING INDEX"),
    (r"ALTER (COLUMN )?\w+ (SET DATA )?TYPE\b", "a change of type rewrites the table"),
    (r"ALTER (COLUMN )?\w+ SET NOT NULL", "reads the whole table, and old code may leave it out"),
    (r"RENAME\b", "old code uses the old name"),
    (r"DROP (COLUMN|CONSTRAINT)\b", "old code may rely on it: drop it a release later"),
)  # fmt: skip


def find_blocking(statements: Iterable[str]) -> list[str]:
    """Return what is wrong with the statements of an upgrade, one line each, with its reason.

    A table that the same upgrade creates is nobody's yet: there all is allowed.
    """
    created, found = set[str](), []
    for statement in (" ".join(each.split()) for each in statements):
        if new := _CREATED.match(statement):
            created.add(new[1])
        for table, why in _problems(statement):
            if table not in created:
                found.append(f"{statement[:100]}: {why}")
    return found


def _problems(statement: str) -> Iterable[tuple[str, str]]:
    if (index := _INDEX.match(statement)) and not index[1]:
        yield index[2], "stops writers while it is built: CREATE INDEX CONCURRENTLY"
    if fill := _FILL.match(statement):
        yield fill[1], "holds the locks of all its rows: fill in batches, outside of migrations"
    if dropped := _DROPPED.match(statement):
        yield dropped[1], "old code may rely on it: drop it a release later"
    if alter := _ALTER.match(statement):
        for pattern, why in _WRONG:
            if re.match(pattern, alter[2]):
                yield alter[1], why
