"""A second factor for logins to the console: the secrets, encrypted, and whether a session has passed it.

Only adds: code from before this runs on it unchanged, and leaves the columns empty.
"""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        for statement in STATEMENTS:
            op.execute(statement.replace("MOMENT", "DATETIME"))
        return
    # Each by itself, so that no two tables are locked at once. So each must bear to be run again.
    with op.get_context().autocommit_block():
        for statement in STATEMENTS:
            typed = statement.replace("MOMENT", "TIMESTAMP WITH TIME ZONE")
            for words in ("ADD COLUMN", "CREATE TABLE"):
                typed = typed.replace(f"{words} ", f"{words} IF NOT EXISTS ", 1)
            op.execute(typed)


def downgrade() -> None:
    op.execute("DROP TABLE second_factors")
    for column in ("verified_at", "offered_secret"):
        op.execute(f"ALTER TABLE sessions DROP COLUMN {column}")


STATEMENTS = (
    """
    CREATE TABLE second_factors (
        email TEXT NOT NULL CONSTRAINT pk_second_factors PRIMARY KEY,
        encrypted_secret TEXT NOT NULL,
        last_step BIGINT NOT NULL,
        enrolled_at MOMENT NOT NULL
    )
    """,
    "ALTER TABLE sessions ADD COLUMN verified_at MOMENT",
    "ALTER TABLE sessions ADD COLUMN offered_secret TEXT",
)
