"""The rules for migrations know what stops writers and old code."""

from __future__ import annotations

import pytest

from tests.migrations.rules import find_blocking


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX CONCURRENTLY ix ON refunds (status)",
        "ALTER TABLE refunds ADD COLUMN note TEXT",
        "ALTER TABLE refunds ADD COLUMN IF NOT EXISTS shared BOOLEAN NOT NULL DEFAULT true",
        "ALTER TABLE refunds ADD CONSTRAINT ck CHECK (amount > 0) NOT VALID",
        "ALTER TABLE refunds VALIDATE CONSTRAINT ck",
        "DROP INDEX CONCURRENTLY IF EXISTS ix",
        "UPDATE alembic_version SET version_num='0007'",
    ],
)
def test_what_lets_others_go_on_is_allowed(statement: str) -> None:
    assert [x for x in find_blocking([statement]) if "alembic_version" not in x] == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX ix ON refunds (status)",
        "CREATE UNIQUE INDEX IF NOT EXISTS ix ON refunds (status)",
        "ALTER TABLE refunds ADD COLUMN note TEXT NOT NULL",
        "ALTER TABLE refunds ADD COLUMN at TIMESTAMP DEFAULT clock_timestamp()",
        "ALTER TABLE refunds ADD CONSTRAINT ck CHECK (amount > 0)",
        "ALTER TABLE refunds ADD CONSTRAINT uq UNIQUE (note)",
        "ALTER TABLE refunds ALTER COLUMN amount TYPE BIGINT",
        "ALTER TABLE refunds ALTER COLUMN note SET NOT NULL",
        "ALTER TABLE refunds RENAME COLUMN note TO remark",
        "ALTER TABLE refunds DROP COLUMN note",
        "ALTER TABLE refunds DROP CONSTRAINT ck",
        "UPDATE refunds SET note = ''",
        "DROP TABLE refunds",
    ],
)
def test_what_stops_writers_or_old_code_is_named(statement: str) -> None:
    (problem,) = find_blocking([statement])
    assert problem.startswith(statement)


def test_a_table_that_the_same_upgrade_makes_may_be_changed_at_will() -> None:
    made = "CREATE TABLE IF NOT EXISTS visits (visit_id TEXT)"
    assert find_blocking([made, "CREATE INDEX ix ON visits (visit_id)"]) == []
