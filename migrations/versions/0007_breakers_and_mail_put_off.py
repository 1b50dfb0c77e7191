"""Providers that are away: one breaker for each, and how often a mail was put off because of it.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    moment = "TIMESTAMP WITH TIME ZONE" if postgresql else "DATETIME"
    for statement in STATEMENTS:
        op.execute(statement.replace("MOMENT", moment))


def downgrade() -> None:
    op.execute("DROP TABLE breakers")
    op.execute("ALTER TABLE inbound_mails DROP COLUMN put_off")


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
)
