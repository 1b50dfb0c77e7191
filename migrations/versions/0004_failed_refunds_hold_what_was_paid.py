"""A refund that failed after some of its payments gave money back goes on holding that part.

Code from before this runs on it unchanged: it only sees that less of the order is left.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _held(row: str) -> str:
    """Return SQL for how much the refund in `row` takes out of what its order has left."""
    return f"""
    CASE WHEN {row}.status IN ('awaiting_approval', 'approved', 'paid') THEN {row}.amount_minor
         WHEN {row}.status = 'failed' THEN
            (SELECT COALESCE(SUM(amount_minor), 0) FROM refund_payments
             WHERE refund_id = {row}.refund_id AND state = 'done')
         ELSE 0 END
    """


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL if postgresql else SQLITE:
        op.execute(statement)
    op.execute(_COUNT_EARLIER)


def downgrade() -> None:
    raise RuntimeError("the guards stay: without them a part could be paid twice")


# What failed in part before this; never above what was paid, or the migration could not run.
_COUNT_EARLIER = """
    UPDATE orders SET held_minor =
        (SELECT CASE WHEN orders.held_minor + SUM(p.amount_minor) < orders.paid_minor
                     THEN orders.held_minor + SUM(p.amount_minor) ELSE orders.paid_minor END
         FROM refunds r JOIN refund_payments p ON p.refund_id = r.refund_id
         WHERE r.order_id = orders.order_id AND r.status = 'failed' AND p.state = 'done')
    WHERE order_id IN
        (SELECT r.order_id FROM refunds r JOIN refund_payments p ON p.refund_id = r.refund_id
         WHERE r.status = 'failed' AND p.state = 'done')
"""

POSTGRESQL = (
    f"""
    CREATE OR REPLACE FUNCTION mailagent_hold_refund() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            UPDATE orders SET held_minor = held_minor - ({_held("OLD")})
            WHERE order_id = OLD.order_id AND OLD.status NOT IN ('rejected', 'expired', 'withdrawn');
        END IF;
        IF TG_OP <> 'DELETE' THEN
            UPDATE orders SET held_minor = held_minor + ({_held("NEW")})
            WHERE order_id = NEW.order_id AND NEW.status NOT IN ('rejected', 'expired', 'withdrawn');
        END IF;
        RETURN NULL;
    END $$
    """,
    # The lock on the refund: it may be failing at this very moment, in a transaction that cannot
    # see this payment yet, and then each would leave the sum to the other.
    """
    CREATE FUNCTION mailagent_hold_payment() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        refund refunds%ROWTYPE;
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            SELECT * INTO refund FROM refunds WHERE refund_id = OLD.refund_id FOR UPDATE;
            IF refund.status = 'failed' AND OLD.state = 'done' THEN
                UPDATE orders SET held_minor = held_minor - OLD.amount_minor
                WHERE order_id = refund.order_id;
            END IF;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            SELECT * INTO refund FROM refunds WHERE refund_id = NEW.refund_id FOR UPDATE;
            IF refund.status = 'failed' AND NEW.state = 'done' THEN
                UPDATE orders SET held_minor = held_minor + NEW.amount_minor
                WHERE order_id = refund.order_id;
            END IF;
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER refund_payments_hold
    AFTER INSERT OR DELETE OR UPDATE OF state, amount_minor, refund_id
    ON refund_payments FOR EACH ROW EXECUTE FUNCTION mailagent_hold_payment()
    """,
)


def _move_order(sign: str, row: str) -> str:
    return (
        f"UPDATE orders SET held_minor = held_minor {sign} ({_held(row)})"
        f" WHERE order_id = {row}.order_id"
    )


def _move_failed(sign: str, row: str) -> str:
    return (
        f"UPDATE orders SET held_minor = held_minor {sign} {row}.amount_minor"
        f" WHERE {row}.state = 'done' AND order_id ="
        f" (SELECT order_id FROM refunds WHERE refund_id = {row}.refund_id AND status = 'failed')"
    )


SQLITE = (
    "DROP TRIGGER refunds_hold_insert",
    "DROP TRIGGER refunds_hold_delete",
    "DROP TRIGGER refunds_hold_update",
    f"""
    CREATE TRIGGER refunds_hold_insert AFTER INSERT ON refunds
    BEGIN {_move_order("+", "NEW")}; END
    """,
    f"""
    CREATE TRIGGER refunds_hold_delete AFTER DELETE ON refunds
    BEGIN {_move_order("-", "OLD")}; END
    """,
    f"""
    CREATE TRIGGER refunds_hold_update AFTER UPDATE OF status, amount_minor, order_id ON refunds
    BEGIN {_move_order("-", "OLD")}; {_move_order("+", "NEW")}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_insert AFTER INSERT ON refund_payments
    BEGIN {_move_failed("+", "NEW")}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_delete AFTER DELETE ON refund_payments
    BEGIN {_move_failed("-", "OLD")}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_update
    AFTER UPDATE OF state, amount_minor, refund_id ON refund_payments
    BEGIN {_move_failed("-", "OLD")}; {_move_failed("+", "NEW")}; END
    """,
)
