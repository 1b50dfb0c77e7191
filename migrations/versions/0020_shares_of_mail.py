"""The mailbox or the domain whose share of the hour's mail a mail uses.

Only adds: code from before this runs on it unchanged, and leaves the column empty.
"""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute(COLUMN)
        op.execute(INDEX)
        return
    # Each by itself, so each must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute(COLUMN.replace("ADD COLUMN", "ADD COLUMN IF NOT EXISTS"))
        # One that was left half-built by a migration that died is of no use and in the way.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_inbound_mails_rate_limit_key_received_at")
        op.execute(INDEX.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))


def downgrade() -> None:
    op.execute("DROP INDEX ix_inbound_mails_rate_limit_key_received_at")
    op.execute("ALTER TABLE inbound_mails DROP COLUMN rate_limit_key")


COLUMN = "ALTER TABLE inbound_mails ADD COLUMN rate_limit_key TEXT"
INDEX = (
    "CREATE INDEX ix_inbound_mails_rate_limit_key_received_at"
    " ON inbound_mails (rate_limit_key, received_at)"
)
