"""A migration of a release to come, written by the rules: tests upgrade by it, in all its ways to go wrong."""

from __future__ import annotations

from alembic import op

from mailagent.store.migration import HEAD

revision = "9999"
down_revision = HEAD
branch_labels = None
depends_on = None

TABLES = ("inbound_mails", "outbound_mails", "refunds", "orders", "conversations")


def upgrade() -> None:
    # Each by itself, so each must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute("CREATE TABLE IF NOT EXISTS visits (visit_id TEXT PRIMARY KEY)")
        for table in TABLES:
            op.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS visited_at TIMESTAMPTZ")
            # One that was left half-built by a migration that died is of no use and in the way.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS ix_{table}_visited_at")
            op.execute(f"CREATE INDEX CONCURRENTLY ix_{table}_visited_at ON {table} (visited_at)")
