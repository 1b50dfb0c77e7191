"""Raw mail is purged by age: an index, so that looking for it costs nothing when there is none.

Code from before this runs on it unchanged. On PostgreSQL the index is built in moments, because the
bytes themselves stand apart from the rows; mail that comes in meanwhile waits for it.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_raw_mails_received_at", "raw_mails", ["received_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_raw_mails_received_at", table_name="raw_mails")
