"""Providers that are away: one breaker for each, and how often a mail was put off because of it. Workers
that have signed in without a gap, and since when: only beside such a one the others can be missed.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
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
            for words in ("ADD COLUMN", "CREATE TABLE"):
                typed = typed.replace(f"{words} ", f"{words} IF NOT EXISTS ", 1)
            op.execute(typed)


def downgrade() -> None:
    op.execute("DROP TABLE breakers")
    op.execute("ALTER TABLE inbound_mails DROP COLUMN put_off")
    op.execute("ALTER TABLE conversations DROP COLUMN words_purged_at")
    op.execute("ALTER TABLE workers DROP COLUMN steady_since")


STATEMENTS = (
    """
    CREATE TABLE breakers (
        provider TEXT NOT NULL CONSTRAINT pk_breakers PRIMARY KEY
            CONSTRAINT ck_breakers_provider CHECK (provider IN ('openai', 'sendgrid', 'stripe')),
        failures INTEGER NOT NULL DEFAULT 0,
        opened_at MOMENT,
        until_at MOMENT,
        needs_operator BOOLEAN NOT NULL DEFAULT false,
        why TEXT NOT NULL DEFAULT '',
        CONSTRAINT ck_breakers_open CHECK ((opened_at IS NULL) = (until_at IS NULL))
    )
    """,
    "ALTER TABLE inbound_mails ADD COLUMN put_off INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE conversations ADD COLUMN words_purged_at MOMENT",
    "ALTER TABLE workers ADD COLUMN steady_since MOMENT",
)
