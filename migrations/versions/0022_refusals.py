"""How often a mail of ours was refused again after another one had been accepted.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute(COLUMN)
        return
    # By itself, so it must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute(COLUMN.replace("ADD COLUMN", "ADD COLUMN IF NOT EXISTS"))


def downgrade() -> None:
    op.execute("ALTER TABLE outbound_mails DROP COLUMN refused_beside")


COLUMN = "ALTER TABLE outbound_mails ADD COLUMN refused_beside INTEGER NOT NULL DEFAULT 0"
