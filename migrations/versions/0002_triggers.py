"""Triggers that hold whatever code does: never more than was paid, two people where two must approve, and
records that only grow."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    statements = POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE
    for statement in statements:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("the triggers stay: without them an order could be refunded twice")


# --- what refunds take out of an order ------------------------------------------------------------

# The update of the order's row is also the lock: two refunds of one order wait for each other, and the check
# constraint of `orders` refuses the one that would go above what was paid. A refund that failed after some of
# its payments were given back holds those.
HELD = """(
    CASE WHEN {row}.status IN ('awaiting_approval', 'approved', 'paid') THEN {row}.amount_minor
         WHEN {row}.status = 'failed' THEN
            (SELECT COALESCE(SUM(amount_minor), 0) FROM refund_payments
             WHERE refund_id = {row}.refund_id AND state = 'done' AND returned_at IS NULL)
         ELSE 0 END
)"""
RELEASE = "UPDATE orders SET held_minor = held_minor - " + HELD.format(row="OLD")
HOLD = "UPDATE orders SET held_minor = held_minor + " + HELD.format(row="NEW")
RELEASE_OLD = f"{RELEASE} WHERE order_id = OLD.order_id"
HOLD_NEW = f"{HOLD} WHERE order_id = NEW.order_id"
HOLDS_NOTHING = "('rejected', 'expired', 'withdrawn')"

POSTGRESQL_HOLD = (
    f"""
    CREATE FUNCTION mailagent_hold_refund() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            {RELEASE_OLD} AND OLD.status NOT IN {HOLDS_NOTHING};
        END IF;
        IF TG_OP <> 'DELETE' THEN
            {HOLD_NEW} AND NEW.status NOT IN {HOLDS_NOTHING};
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER refunds_hold AFTER INSERT OR DELETE OR UPDATE OF status, amount_minor, order_id
    ON refunds FOR EACH ROW EXECUTE FUNCTION mailagent_hold_refund()
    """,
    """
    CREATE FUNCTION mailagent_hold_payment() RETURNS trigger LANGUAGE plpgsql AS $$
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
    """
    CREATE TRIGGER refund_payments_hold
    AFTER INSERT OR DELETE OR UPDATE OF state, amount_minor, refund_id, returned_at
    ON refund_payments FOR EACH ROW EXECUTE FUNCTION mailagent_hold_payment()
    """,
)


def _hold_payment(row: str, sign: str) -> str:
    """Return SQLite's statement that takes a payment of a failed refund in or out."""
    return (
        f"UPDATE orders SET held_minor = held_minor {sign} {row}.amount_minor"
        f" WHERE {row}.state = 'done' AND {row}.returned_at IS NULL AND order_id ="
        f" (SELECT order_id FROM refunds WHERE refund_id = {row}.refund_id AND status = 'failed')"
    )


SQLITE_HOLD = (
    f"CREATE TRIGGER refunds_hold_insert AFTER INSERT ON refunds BEGIN {HOLD_NEW}; END",
    f"CREATE TRIGGER refunds_hold_delete AFTER DELETE ON refunds BEGIN {RELEASE_OLD}; END",
    f"""
    CREATE TRIGGER refunds_hold_update AFTER UPDATE OF status, amount_minor, order_id ON refunds
    BEGIN {RELEASE_OLD}; {HOLD_NEW}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_insert AFTER INSERT ON refund_payments
    BEGIN {_hold_payment("NEW", "+")}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_delete AFTER DELETE ON refund_payments
    BEGIN {_hold_payment("OLD", "-")}; END
    """,
    f"""
    CREATE TRIGGER refund_payments_hold_update
    AFTER UPDATE OF state, amount_minor, refund_id, returned_at ON refund_payments
    BEGIN {_hold_payment("OLD", "-")}; {_hold_payment("NEW", "+")}; END
    """,
)

# --- rows that are refused ------------------------------------------------------------------------

NOT_COUNTERSIGNED = """NEW.four_eyes AND NEW.status IN ('approved', 'paid') AND NOT EXISTS (
    SELECT 1 FROM approvals a JOIN countersignatures c ON c.approval_id = a.approval_id
    WHERE a.refund_id = NEW.refund_id AND c.decision = 'approve')"""
IS_NO_SECOND_PERSON = """
    NEW.decided_by = (SELECT decided_by FROM decisions WHERE approval_id = NEW.approval_id)
    OR NOT EXISTS (
        SELECT 1 FROM decisions WHERE approval_id = NEW.approval_id AND decision = 'approve')"""
IS_MORE_THAN_IS_LEFT = """NEW.status IN ('awaiting_approval', 'approved') AND NEW.amount_minor
    + (SELECT COALESCE(SUM(amount_minor), 0) FROM external_refunds
       WHERE order_id = NEW.order_id AND returned_at IS NULL)
    > (SELECT paid_minor - held_minor FROM orders WHERE order_id = NEW.order_id)"""
NEEDS_SECOND_PERSON = "a second person has to approve this refund"

# Name, event and table, condition, words.
REFUSED = (
    (
        "refunds_four_eyes",
        "UPDATE OF status, four_eyes ON refunds",
        NOT_COUNTERSIGNED,
        NEEDS_SECOND_PERSON,
    ),
    ("refunds_four_eyes_new", "INSERT ON refunds", NOT_COUNTERSIGNED, NEEDS_SECOND_PERSON),
    (
        "countersignatures_second_person",
        "INSERT ON countersignatures",
        IS_NO_SECOND_PERSON,
        "only another person than the first may countersign, and only an approval",
    ),
    (
        "refunds_with_external",
        "INSERT ON refunds",
        IS_MORE_THAN_IS_LEFT,
        "more than is left of the payments, with what was refunded elsewhere",
    ),
)


def _refuse_in_postgresql(name: str, event: str, condition: str, words: str) -> Sequence[str]:
    return (
        f"""
        CREATE FUNCTION mailagent_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF {condition} THEN
                RAISE EXCEPTION '{words}' USING ERRCODE = 'check_violation';
            END IF;
            RETURN NEW;
        END $$
        """,
        f"CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW EXECUTE FUNCTION mailagent_{name}()",
    )


def _refuse_in_sqlite(name: str, event: str, condition: str, words: str) -> str:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
    return f"CREATE TRIGGER {name} BEFORE {event} WHEN {condition} {refuse}"


# --- records that only grow -----------------------------------------------------------------------

# Words that people typed may be erased from them, and nothing else.
OF_AUDIT = ("audit_id", "at", "actor", "action", "subject")
OF_DECISION = (
    "approval_id",
    "decision",
    "decided_by",
    "decided_at",
    "amount_minor",
    "note_shared",
    "mail_id",
    "quantities",
    "despite_cancel",
    "approved_for",
    "undo_until",
    "offer_percent",
)
DECISIONS = ("decisions", "countersignatures")

# A decision without effect so far can be taken back by its author, in time; of two, the second first. The audit
# log keeps both acts: the second one is written before the decision goes.
CAN_BE_UNDONE = """EXISTS (
    SELECT 1 FROM approvals a JOIN refunds r ON r.refund_id = a.refund_id
    JOIN audit u ON u.subject = r.refund_id AND u.action = 'decision taken back'
    WHERE a.approval_id = OLD.approval_id AND r.status = 'awaiting_approval'
    AND u.actor = OLD.decided_by AND u.at >= OLD.decided_at AND u.at < OLD.undo_until)"""
NO_SECOND = """NOT EXISTS (SELECT 1 FROM countersignatures WHERE approval_id = OLD.approval_id)"""
UNDOABLE = {"decisions": f"{CAN_BE_UNDONE} AND {NO_SECOND}", "countersignatures": CAN_BE_UNDONE}

APPEND_ONLY = "FOR EACH ROW EXECUTE FUNCTION mailagent_append_only()"
POSTGRESQL_RECORDS = (
    """
    CREATE FUNCTION mailagent_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END $$
    """,
    f"""
    CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE OF {", ".join(OF_AUDIT)} ON audit
    {APPEND_ONLY}
    """,
    """
    CREATE TRIGGER audit_words BEFORE UPDATE ON audit FOR EACH ROW
    WHEN (NEW.details IS DISTINCT FROM OLD.details - 'note' - 'why' - 'reason' - 'tag')
    EXECUTE FUNCTION mailagent_append_only()
    """,
    """
    CREATE TRIGGER audit_keep BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION mailagent_append_only()
    """,
    f"CREATE TRIGGER ledger_append_only BEFORE DELETE OR UPDATE ON ledger_entries {APPEND_ONLY}",
    *(
        f"""
        CREATE TRIGGER {table}_stand BEFORE UPDATE OF {", ".join(OF_DECISION)} ON {table}
        {APPEND_ONLY}
        """
        for table in DECISIONS
    ),
    *(
        f"""
        CREATE FUNCTION mailagent_undo_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT ({UNDOABLE[table]}) THEN
                RAISE EXCEPTION '{table} is append-only';
            END IF;
            RETURN OLD;
        END $$
        """
        for table in DECISIONS
    ),
    *(
        f"""
        CREATE TRIGGER {table}_undo BEFORE DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION mailagent_undo_{table}()
        """
        for table in DECISIONS
    ),
    *(
        f"""
        CREATE TRIGGER {table}_words BEFORE UPDATE ON {table} FOR EACH ROW
        WHEN (NEW.note IS NOT NULL) EXECUTE FUNCTION mailagent_append_only()
        """
        for table in DECISIONS
    ),
)


def _same(columns: Sequence[str]) -> str:
    return " AND ".join(f"NEW.{name} IS OLD.{name}" for name in columns)


def _keep_in_sqlite(table: str, unless: str = "false", deleted_if: str = "false") -> Sequence[str]:
    """Return the triggers that refuse to change rows, and to delete them, unless a condition holds."""
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    return (
        f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} WHEN NOT ({deleted_if}) {refuse}",
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} WHEN NOT ({unless}) {refuse}",
    )


WITHOUT_TEXT = "NEW.details IS json_remove(OLD.details, '$.note', '$.why', '$.reason', '$.tag')"
SQLITE_RECORDS = (
    *_keep_in_sqlite("audit", f"{_same(OF_AUDIT)} AND {WITHOUT_TEXT}"),
    *_keep_in_sqlite("ledger_entries"),
    *(
        statement
        for table in DECISIONS
        for statement in _keep_in_sqlite(
            table, f"{_same(OF_DECISION)} AND NEW.note IS NULL", UNDOABLE[table]
        )
    ),
)

POSTGRESQL = (
    *POSTGRESQL_HOLD,
    *(statement for each in REFUSED for statement in _refuse_in_postgresql(*each)),
    *POSTGRESQL_RECORDS,
)
SQLITE = (*SQLITE_HOLD, *(_refuse_in_sqlite(*each) for each in REFUSED), *SQLITE_RECORDS)
