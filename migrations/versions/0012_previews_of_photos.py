"""Previews of photos, made by workers and kept with the raw mail; and which mails have been seen to.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute(COLUMN.replace("MOMENT", "DATETIME"))
        op.execute(TABLE.replace("MOMENT", "DATETIME").replace("BYTES", "BLOB"))
        op.execute(INDEX.replace("NONE", "'[]'"))
        return
    # Each by itself, so each must bear to be run again.
    with op.get_context().autocommit_block():
        column = COLUMN.replace("MOMENT", "TIMESTAMP WITH TIME ZONE")
        op.execute(column.replace("ADD COLUMN", "ADD COLUMN IF NOT EXISTS"))
        table = TABLE.replace("MOMENT", "TIMESTAMP WITH TIME ZONE").replace("BYTES", "BYTEA")
        op.execute(table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
        # One that was left half-built by a migration that died is of no use and in the way.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_inbound_mails_without_previews")
        index = INDEX.replace("NONE", "'[]'::jsonb")
        op.execute(index.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))


def downgrade() -> None:
    op.execute("DROP INDEX ix_inbound_mails_without_previews")
    op.execute("DROP TABLE photo_previews")
    op.execute("ALTER TABLE inbound_mails DROP COLUMN previews_made_at")


COLUMN = "ALTER TABLE inbound_mails ADD COLUMN previews_made_at MOMENT"

TABLE = """
CREATE TABLE photo_previews (
    mail_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    picture BYTES,
    problem TEXT,
    made_at MOMENT NOT NULL,
    CONSTRAINT pk_photo_previews PRIMARY KEY (mail_id, number),
    CONSTRAINT fk_photo_previews_mail_id FOREIGN KEY (mail_id)
        REFERENCES raw_mails (mail_id) ON DELETE CASCADE,
    CONSTRAINT ck_photo_previews_picture_or_problem CHECK ((picture IS NULL) <> (problem IS NULL))
)
"""

INDEX = (
    "CREATE INDEX ix_inbound_mails_without_previews ON inbound_mails (received_at)"
    " WHERE previews_made_at IS NULL AND kind = 'customer' AND attachments <> NONE"
)
