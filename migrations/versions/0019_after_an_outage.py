"""What is known of a mail of ours that SendGrid did not simply take; a receipt for several refunds; a refund
that was approved although its order is another customer's by now.

Only adds: code from before this runs on it unchanged, and leaves the columns empty.
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        for statement in STATEMENTS:
            op.execute(statement.replace("MOMENT", "DATETIME"))
        return
    # Each by itself: who locks two tables that mail goes through can meet mail that locks them the other
    # way round. So each must bear to be run again.
    with op.get_context().autocommit_block():
        for statement in STATEMENTS:
            typed = statement.replace("MOMENT", "TIMESTAMP WITH TIME ZONE")
            op.execute(typed.replace("ADD COLUMN ", "ADD COLUMN IF NOT EXISTS ", 1))


def downgrade() -> None:
    for table, column in COLUMNS:
        op.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")


COLUMNS = (
    ("outbound_mails", "refused_at MOMENT"),
    ("outbound_mails", "put_off_at MOMENT"),
    ("outbound_mails", "sent_again_why TEXT"),
    ("refunds", "receipt_id TEXT"),
    ("refunds", "approved_for TEXT"),
)
STATEMENTS = tuple(f"ALTER TABLE {table} ADD COLUMN {column}" for table, column in COLUMNS)
