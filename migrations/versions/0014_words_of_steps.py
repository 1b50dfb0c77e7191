"""Words that recorded steps speak of: they stand in our rows, and DBOS's records name the row.

Only adds: code from before this runs on it unchanged.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        for statement in STATEMENTS:
            op.execute(statement.replace("MOMENT", "DATETIME"))
        return
    # Each by itself, so each must bear to be run again.
    with op.get_context().autocommit_block():
        for statement in STATEMENTS:
            typed = statement.replace("MOMENT", "TIMESTAMP WITH TIME ZONE")
            for words in ("CREATE TABLE", "CREATE INDEX"):
                typed = typed.replace(f"{words} ", f"{words} IF NOT EXISTS ", 1)
            op.execute(typed)


def downgrade() -> None:
    op.execute("DROP TABLE step_words")


STATEMENTS = (
    """
    CREATE TABLE step_words (
        words_id TEXT NOT NULL CONSTRAINT pk_step_words PRIMARY KEY,
        conversation_id TEXT NOT NULL CONSTRAINT fk_step_words_conversation_id_conversations
            REFERENCES conversations (conversation_id),
        at MOMENT NOT NULL,
        words JSON NOT NULL
    )
    """,
    "CREATE INDEX ix_step_words_conversation_id ON step_words (conversation_id)",
    "CREATE INDEX ix_step_words_at ON step_words (at)",
)
