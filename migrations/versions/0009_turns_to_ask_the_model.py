"""Turns to ask the model's provider: one row by which all workers keep its limits a minute.

Only adds: code from before this runs on it unchanged, and takes no turns.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute(PACES)
        return
    # By itself, so it must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute(PACES.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1))


def downgrade() -> None:
    op.execute("DROP TABLE paces")


PACES = """
    CREATE TABLE paces (
        provider TEXT NOT NULL CONSTRAINT pk_paces PRIMARY KEY,
        starts_at BIGINT NOT NULL,
        requests_until BIGINT NOT NULL,
        tokens_until BIGINT NOT NULL
    )
"""
