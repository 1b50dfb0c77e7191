"""Orders as shops have them, what a policy decided by, two pairs of eyes, and money that moved elsewhere.

Only adds: code from before this runs on it unchanged. Where a column holds a rule, the rule is written
with it, because SQLite adds no constraint to a table that exists.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    moment = "TIMESTAMP WITH TIME ZONE" if postgresql else "DATETIME"
    json = "JSONB" if postgresql else "JSON"
    for statement in (*COLUMNS, *TABLES):
        op.execute(statement.replace("MOMENT", moment).replace("JSONTYPE", json))
    for statement in POSTGRESQL if postgresql else SQLITE:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("what was recorded stays: without it money could be given back twice")


def _amount(table: str, column: str) -> str:
    name = column.removesuffix("_minor")
    return (
        f"ALTER TABLE {table} ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0"
        f" CONSTRAINT ck_{table}_{name} CHECK ({column} >= 0)"
    )


COLUMNS = (
    _amount("orders", "discount_minor"),
    _amount("orders", "shipping_minor"),
    _amount("orders", "tax_minor"),
    _amount("order_lines", "discount_minor"),
    "ALTER TABLE order_lines ADD COLUMN category TEXT",
    "ALTER TABLE order_lines ADD COLUMN final_sale BOOLEAN NOT NULL DEFAULT false",
    "ALTER TABLE order_payments ADD COLUMN charged_back_at MOMENT",
    _amount("refunds", "shipping_minor"),
    _amount("refunds", "short_minor"),
    "ALTER TABLE refunds ADD COLUMN policy_version TEXT",
    "ALTER TABLE refunds ADD COLUMN four_eyes BOOLEAN NOT NULL DEFAULT false",
    "ALTER TABLE refunds ADD COLUMN despite_cancel BOOLEAN NOT NULL DEFAULT false",
    "ALTER TABLE refund_payments ADD COLUMN returned_at MOMENT",
    "ALTER TABLE conversations ADD COLUMN language TEXT",
)

TABLES = (
    """
    CREATE TABLE policy_versions (
        version TEXT NOT NULL CONSTRAINT pk_policy_versions PRIMARY KEY,
        source TEXT NOT NULL,
        first_used_at MOMENT NOT NULL
    )
    """,
    """
    CREATE TABLE countersignatures (
        approval_id TEXT NOT NULL CONSTRAINT pk_countersignatures PRIMARY KEY
            CONSTRAINT fk_countersignatures_approval_id REFERENCES approvals (approval_id),
        decision TEXT NOT NULL
            CONSTRAINT ck_countersignatures_decision CHECK (decision IN ('approve', 'reject')),
        decided_by TEXT NOT NULL,
        decided_at MOMENT NOT NULL,
        amount_minor BIGINT,
        note TEXT
    )
    """,
    """
    CREATE TABLE outside_refunds (
        reference TEXT NOT NULL CONSTRAINT pk_outside_refunds PRIMARY KEY,
        gateway TEXT NOT NULL,
        order_id TEXT NOT NULL
            CONSTRAINT fk_outside_refunds_order_id REFERENCES orders (order_id),
        payment_id TEXT NOT NULL,
        amount_minor BIGINT NOT NULL
            CONSTRAINT ck_outside_refunds_amount CHECK (amount_minor > 0),
        currency TEXT NOT NULL,
        seen_at MOMENT NOT NULL,
        returned_at MOMENT
    )
    """,
    "CREATE INDEX ix_outside_refunds_order_id ON outside_refunds (order_id)",
    "CREATE INDEX ix_outside_refunds_payment_id ON outside_refunds (payment_id)",
    "CREATE INDEX ix_order_payments_payment_id ON order_payments (payment_id)",
    "CREATE INDEX ix_refund_payments_payment_id ON refund_payments (payment_id)",
    """
    CREATE TABLE gateway_events (
        event_id TEXT NOT NULL CONSTRAINT pk_gateway_events PRIMARY KEY,
        gateway TEXT NOT NULL,
        kind TEXT NOT NULL,
        occurred_at MOMENT NOT NULL,
        received_at MOMENT NOT NULL,
        outcome TEXT NOT NULL,
        body JSONTYPE NOT NULL
    )
    """,
    "CREATE INDEX ix_gateway_events_received_at ON gateway_events (received_at)",
    """
    CREATE TABLE gateway_event_payments (
        payment_id TEXT NOT NULL,
        event_id TEXT NOT NULL
            CONSTRAINT fk_gateway_event_payments_event_id REFERENCES gateway_events (event_id),
        CONSTRAINT pk_gateway_event_payments PRIMARY KEY (payment_id, event_id)
    )
    """,
    "CREATE INDEX ix_gateway_event_payments_event_id ON gateway_event_payments (event_id)",
    """
    CREATE TABLE goodwill_codes (
        code TEXT NOT NULL CONSTRAINT pk_goodwill_codes PRIMARY KEY,
        order_id TEXT NOT NULL
            CONSTRAINT fk_goodwill_codes_order_id REFERENCES orders (order_id),
        conversation_id TEXT NOT NULL
            CONSTRAINT fk_goodwill_codes_conversation_id
            REFERENCES conversations (conversation_id),
        mail_id TEXT NOT NULL
            CONSTRAINT fk_goodwill_codes_mail_id REFERENCES inbound_mails (mail_id),
        percent INTEGER NOT NULL
            CONSTRAINT ck_goodwill_codes_percent CHECK (percent BETWEEN 1 AND 100),
        policy_version TEXT,
        issued_at MOMENT NOT NULL,
        expires_at MOMENT NOT NULL,
        used_at MOMENT,
        used_on TEXT,
        CONSTRAINT ck_goodwill_codes_used_once CHECK ((used_at IS NULL) = (used_on IS NULL)),
        CONSTRAINT uq_goodwill_codes_order_id UNIQUE (order_id)
    )
    """,
    "CREATE INDEX ix_goodwill_codes_conversation_id ON goodwill_codes (conversation_id)",
)

# What other ways gave back of an order and did not come back.
_OUTSIDE = (
    "(SELECT COALESCE(SUM(amount_minor), 0) FROM outside_refunds"
    " WHERE order_id = NEW.order_id AND returned_at IS NULL)"
)
_TOO_MUCH = (
    "NEW.status IN ('awaiting_approval', 'approved') AND NEW.amount_minor + "
    f"{_OUTSIDE} > (SELECT paid_minor - held_minor FROM orders WHERE order_id = NEW.order_id)"
)
_NOT_COUNTERSIGNED = """
    NEW.four_eyes AND NEW.status IN ('approved', 'paid') AND NOT EXISTS (
        SELECT 1 FROM approvals a JOIN countersignatures c ON c.approval_id = a.approval_id
        WHERE a.refund_id = NEW.refund_id AND c.decision = 'approve')
"""
_SAME_EYES = (
    "NEW.decided_by = (SELECT decided_by FROM decisions WHERE approval_id = NEW.approval_id)"
    " OR NOT EXISTS (SELECT 1 FROM decisions"
    " WHERE approval_id = NEW.approval_id AND decision = 'approve')"
)


def _held(row: str) -> str:
    """Return SQL for how much the refund in `row` takes out of what its order has left."""
    return f"""
    CASE WHEN {row}.status IN ('awaiting_approval', 'approved', 'paid') THEN {row}.amount_minor
         WHEN {row}.status = 'failed' THEN
            (SELECT COALESCE(SUM(amount_minor), 0) FROM refund_payments
             WHERE refund_id = {row}.refund_id AND state = 'done' AND returned_at IS NULL)
         ELSE 0 END
    """


def _guard(name: str, moment: str, table: str, rule: str, words: str) -> tuple[str, str]:
    return (
        f"""
        CREATE FUNCTION mailagent_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF {rule} THEN
                RAISE EXCEPTION '{words}' USING ERRCODE = 'check_violation';
            END IF;
            RETURN NEW;
        END $$
        """,
        f"CREATE TRIGGER {table}_{name} BEFORE {moment} ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION mailagent_{name}()",
    )


def _sqlite_guard(name: str, moment: str, table: str, rule: str, words: str) -> str:
    return (
        f"CREATE TRIGGER {table}_{name} BEFORE {moment} ON {table} WHEN {rule}"
        f" BEGIN SELECT RAISE(ABORT, '{words}'); END"
    )


_TOO_MUCH_GUARD = (
    "with_outside",
    "INSERT",
    "refunds",
    _TOO_MUCH,
    "more than is left of the payments, with what was refunded elsewhere",
)
_COUNTERSIGNED_GUARDS = tuple(
    (name, moment, "refunds", _NOT_COUNTERSIGNED, "a second person has to approve this refund")
    for name, moment in (
        ("four_eyes_new", "INSERT"),
        ("four_eyes", "UPDATE OF status, four_eyes"),
    )
)
_SAME_EYES_GUARD = (
    "second_person",
    "INSERT",
    "countersignatures",
    _SAME_EYES,
    "only another person than the first may countersign, and only an approval",
)
_GUARDS = (_TOO_MUCH_GUARD, *_COUNTERSIGNED_GUARDS, _SAME_EYES_GUARD)

POSTGRESQL = (
    *(statement for guard in _GUARDS for statement in _guard(*guard)),
    """
    CREATE TRIGGER countersignatures_stand BEFORE UPDATE OR DELETE ON countersignatures
    FOR EACH ROW EXECUTE FUNCTION mailagent_append_only()
    """,
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
    """
    CREATE OR REPLACE FUNCTION mailagent_hold_payment() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        refund refunds%ROWTYPE;
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            SELECT * INTO refund FROM refunds WHERE refund_id = OLD.refund_id FOR UPDATE;
            IF refund.status = 'failed' AND OLD.state = 'done' AND OLD.returned_at IS NULL THEN
                UPDATE orders SET held_minor = held_minor - OLD.amount_minor
                WHERE order_id = refund.order_id;
            END IF;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            SELECT * INTO refund FROM refunds WHERE refund_id = NEW.refund_id FOR UPDATE;
            IF refund.status = 'failed' AND NEW.state = 'done' AND NEW.returned_at IS NULL THEN
                UPDATE orders SET held_minor = held_minor + NEW.amount_minor
                WHERE order_id = refund.order_id;
            END IF;
        END IF;
        RETURN NULL;
    END $$
    """,
    "DROP TRIGGER refund_payments_hold ON refund_payments",
    """
    CREATE TRIGGER refund_payments_hold
    AFTER INSERT OR DELETE OR UPDATE OF state, amount_minor, refund_id, returned_at
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
        f" WHERE {row}.state = 'done' AND {row}.returned_at IS NULL AND order_id ="
        f" (SELECT order_id FROM refunds WHERE refund_id = {row}.refund_id AND status = 'failed')"
    )


SQLITE = (
    *(_sqlite_guard(*guard) for guard in _GUARDS),
    *(
        f"""
        CREATE TRIGGER countersignatures_no_{verb.lower()} BEFORE {verb} ON countersignatures
        BEGIN SELECT RAISE(ABORT, 'countersignatures is append-only'); END
        """
        for verb in ("UPDATE", "DELETE")
    ),
    "DROP TRIGGER refunds_hold_insert",
    "DROP TRIGGER refunds_hold_delete",
    "DROP TRIGGER refunds_hold_update",
    "DROP TRIGGER refund_payments_hold_insert",
    "DROP TRIGGER refund_payments_hold_delete",
    "DROP TRIGGER refund_payments_hold_update",
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
    AFTER UPDATE OF state, amount_minor, refund_id, returned_at ON refund_payments
    BEGIN {_move_failed("-", "OLD")}; {_move_failed("+", "NEW")}; END
    """,
)
