"""What a call of the model cost, as it was priced on its day; without a value by the settings of today.

Only adds: code from before this runs on it unchanged, and leaves the column empty.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute(COST)
        return
    # By itself, so it must bear to be run again.
    with op.get_context().autocommit_block():
        op.execute(COST.replace("ADD COLUMN ", "ADD COLUMN IF NOT EXISTS ", 1))


def downgrade() -> None:
    op.execute("ALTER TABLE model_calls DROP COLUMN cost_micro_usd")


COST = "ALTER TABLE model_calls ADD COLUMN cost_micro_usd BIGINT"
