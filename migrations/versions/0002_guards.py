"""Triggers that hold whatever code does: never above what was paid, audit only grows."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# States in which a refund takes its amount out of what the order has left.
HOLDING = "('awaiting_approval', 'approved', 'paid')"


def upgrade() -> None:
    statements = POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE
    for statement in statements:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("the guards stay: without them an order could be refunded twice")


# The update of the order's row is also the lock: two refunds of one order wait for each other, and
# the check constraint on orders refuses the one that would go above what was paid.
POSTGRESQL = (
    f"""
    CREATE FUNCTION mailagent_hold_refund() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' AND OLD.status IN {HOLDING} THEN
            UPDATE orders SET held_minor = held_minor - OLD.amount_minor
            WHERE order_id = OLD.order_id;
        END IF;
        IF TG_OP <> 'DELETE' AND NEW.status IN {HOLDING} THEN
            UPDATE orders SET held_minor = held_minor + NEW.amount_minor
            WHERE order_id = NEW.order_id;
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER refunds_hold AFTER INSERT OR DELETE OR UPDATE OF status, amount_minor, order_id
    ON refunds FOR EACH ROW EXECUTE FUNCTION mailagent_hold_refund()
    """,
    """
    CREATE FUNCTION mailagent_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END $$
    """,
    """
    CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION mailagent_append_only()
    """,
    """
    CREATE TRIGGER audit_keep BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION mailagent_append_only()
    """,
    """
    CREATE TRIGGER decisions_stand BEFORE UPDATE OR DELETE ON decisions
    FOR EACH ROW EXECUTE FUNCTION mailagent_append_only()
    """,
    """
    CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION mailagent_append_only()
    """,
)

_RELEASE_OLD = (
    "UPDATE orders SET held_minor = held_minor - OLD.amount_minor WHERE order_id = OLD.order_id"
)
_HOLD_NEW = (
    "UPDATE orders SET held_minor = held_minor + NEW.amount_minor WHERE order_id = NEW.order_id"
)

SQLITE = (
    f"""
    CREATE TRIGGER refunds_hold_insert AFTER INSERT ON refunds WHEN NEW.status IN {HOLDING}
    BEGIN {_HOLD_NEW}; END
    """,
    f"""
    CREATE TRIGGER refunds_hold_delete AFTER DELETE ON refunds WHEN OLD.status IN {HOLDING}
    BEGIN {_RELEASE_OLD}; END
    """,
    f"""
    CREATE TRIGGER refunds_hold_update AFTER UPDATE OF status, amount_minor, order_id ON refunds
    BEGIN
        {_RELEASE_OLD} AND OLD.status IN {HOLDING};
        {_HOLD_NEW} AND NEW.status IN {HOLDING};
    END
    """,
    *(
        f"""
        CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
        BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END
        """
        for table in ("audit", "decisions", "ledger_entries")
        for verb in ("UPDATE", "DELETE")
    ),
)
