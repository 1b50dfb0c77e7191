"""Tallies: how many rows of a sort there were up to a time, so that a count need not read them all again;
and two indexes, by which rows are counted without being read.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        for statement in (*TABLES, *INDEXES):
            op.execute(statement.replace("MOMENT", "DATETIME"))
        return
    # Each by itself, so each must bear to be run again.
    with op.get_context().autocommit_block():
        for statement in TABLES:
            typed = statement.replace("MOMENT", "TIMESTAMP WITH TIME ZONE")
            op.execute(typed.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1))
        for index in INDEXES:
            # One that was left half-built by a migration that died is of no use and in the way.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index.split()[2]}")
            op.execute(index.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))


def downgrade() -> None:
    op.execute("DROP INDEX ix_refunds_status_currency_amount_minor")
    op.execute("DROP INDEX ix_inbound_mails_reasons")
    op.execute("DROP TABLE tally_marks")
    op.execute("DROP TABLE tallies")


TABLES = (
    """
    CREATE TABLE tallies (
        source TEXT NOT NULL,
        label TEXT NOT NULL,
        detail TEXT NOT NULL,
        quantity TEXT NOT NULL,
        total BIGINT NOT NULL,
        CONSTRAINT pk_tallies PRIMARY KEY (source, label, detail, quantity)
    )
    """,
    """
    CREATE TABLE tally_marks (
        source TEXT NOT NULL CONSTRAINT pk_tally_marks PRIMARY KEY,
        counted_until MOMENT NOT NULL
    )
    """,
)

INDEXES = (
    "CREATE INDEX ix_refunds_status_currency_amount_minor ON refunds (status, currency, amount_minor)",
    "CREATE INDEX ix_inbound_mails_reasons ON inbound_mails (kind, no_answer_reason)"
    " WHERE status = 'no_answer'",
)
