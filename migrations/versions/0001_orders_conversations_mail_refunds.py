"""orders conversations mail refunds"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

instant = sa.DateTime(timezone=True)
json_value = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "audit_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", instant, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", json_value, nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_at", "audit", ["at"], unique=False)
    op.create_index("ix_audit_subject", "audit", ["subject"], unique=False)

    op.create_table(
        "conversations",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("customer_email", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reply_token", sa.Text(), nullable=False),
        sa.Column("confirm_token", sa.Text(), nullable=False),
        sa.Column("team_token", sa.Text(), nullable=False),
        sa.Column("handed_over_reason", sa.Text(), nullable=True),
        sa.Column("handed_over_at", instant, nullable=True),
        sa.Column("opened_at", instant, nullable=False),
        sa.Column("last_mail_at", instant, nullable=False),
        sa.Column("model_turns", sa.Integer(), server_default="0", nullable=False),
        sa.Column("model_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "status IN ('open', 'handed_over')", name=op.f("ck_conversations_status")
        ),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_conversations")),
        sa.UniqueConstraint("confirm_token", name=op.f("uq_conversations_confirm_token")),
        sa.UniqueConstraint("reply_token", name=op.f("uq_conversations_reply_token")),
        sa.UniqueConstraint("team_token", name=op.f("uq_conversations_team_token")),
    )
    op.create_index(
        "ix_conversations_customer_email", "conversations", ["customer_email"], unique=False
    )
    op.create_index(
        "ix_conversations_last_mail_at", "conversations", ["last_mail_at"], unique=False
    )

    op.create_table(
        "ledger_entries",
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("recorded_at", instant, nullable=False),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_ledger_entries_amount")),
        sa.PrimaryKeyConstraint("idempotency_key", name=op.f("pk_ledger_entries")),
        sa.UniqueConstraint("reference", name=op.f("uq_ledger_entries_reference")),
    )
    op.create_table(
        "orders",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("customer_email", sa.Text(), nullable=False),
        sa.Column("customer_name", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("placed_at", instant, nullable=False),
        sa.Column("delivered_at", instant, nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("paid_minor", sa.BigInteger(), nullable=False),
        sa.Column("held_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("updated_at", instant, nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'shipped', 'delivered', 'cancelled')",
            name=op.f("ck_orders_status"),
        ),
        sa.CheckConstraint(
            "held_minor >= 0 AND held_minor <= paid_minor", name=op.f("ck_orders_never_above_paid")
        ),
        sa.CheckConstraint("paid_minor >= 0", name=op.f("ck_orders_paid")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_orders")),
    )
    op.create_index(
        "ix_orders_customer_email_placed_at",
        "orders",
        ["customer_email", "placed_at"],
        unique=False,
    )

    op.create_table(
        "suppressed_addresses",
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", instant, nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_suppressed_addresses")),
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("seen_at", instant, nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
    )
    op.create_table(
        "order_lines",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("line_no", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("unit_price_minor", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("quantity >= 1", name=op.f("ck_order_lines_quantity")),
        sa.CheckConstraint("unit_price_minor >= 0", name=op.f("ck_order_lines_unit_price")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_order_lines_order_id")
        ),
        sa.PrimaryKeyConstraint("order_id", "line_no", name=op.f("pk_order_lines")),
    )
    op.create_table(
        "order_payments",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_order_payments_amount")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_order_payments_order_id")
        ),
        sa.PrimaryKeyConstraint("order_id", "payment_id", name=op.f("pk_order_payments")),
    )
    op.create_table(
        "outbound_mails",
        sa.Column("outbound_id", sa.Text(), nullable=False),
        sa.Column("dedup_key", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("refund_id", sa.Text(), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("to_address", sa.Text(), nullable=False),
        sa.Column("from_address", sa.Text(), nullable=False),
        sa.Column("reply_to", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("in_reply_to", sa.Text(), nullable=True),
        sa.Column("mail_references", json_value, nullable=False),
        sa.Column("auto_submitted", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("next_attempt_at", instant, nullable=True),
        sa.Column("sending_at", instant, nullable=True),
        sa.Column("sent_at", instant, nullable=True),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'sending', 'sent', 'failed', 'unknown', 'undelivered')",
            name=op.f("ck_outbound_mails_status"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_outbound_mails_conversation_id"),
        ),
        sa.PrimaryKeyConstraint("outbound_id", name=op.f("pk_outbound_mails")),
        sa.UniqueConstraint("dedup_key", name=op.f("uq_outbound_mails_dedup_key")),
        sa.UniqueConstraint("message_id", name=op.f("uq_outbound_mails_message_id")),
    )
    op.create_index(
        "ix_outbound_mails_conversation_id_created_at",
        "outbound_mails",
        ["conversation_id", "created_at"],
        unique=False,
    )
    op.create_index("ix_outbound_mails_refund_id", "outbound_mails", ["refund_id"], unique=False)
    op.create_index(
        "ix_outbound_mails_to_address_created_at",
        "outbound_mails",
        ["to_address", "created_at"],
        unique=False,
    )
    op.create_index(
        "ix_outbound_mails_under_way",
        "outbound_mails",
        ["created_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('queued', 'sending')"),
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )

    op.create_table(
        "delivery_events",
        sa.Column("event_key", sa.Text(), nullable=False),
        sa.Column("outbound_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("occurred_at", instant, nullable=False),
        sa.Column("received_at", instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["outbound_id"],
            ["outbound_mails.outbound_id"],
            name=op.f("fk_delivery_events_outbound_id"),
        ),
        sa.PrimaryKeyConstraint("event_key", name=op.f("pk_delivery_events")),
    )
    op.create_index(
        "ix_delivery_events_outbound_id", "delivery_events", ["outbound_id"], unique=False
    )

    op.create_table(
        "inbound_mails",
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("dedup_key", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("from_address", sa.Text(), nullable=False),
        sa.Column("from_name", sa.Text(), nullable=False),
        sa.Column("envelope_from", sa.Text(), nullable=True),
        sa.Column("envelope_to", json_value, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("same_message_id", sa.Integer(), server_default="0", nullable=False),
        sa.Column("in_reply_to", json_value, nullable=False),
        sa.Column("mail_references", json_value, nullable=False),
        sa.Column("sent_at", instant, nullable=True),
        sa.Column("received_at", instant, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("new_text", sa.Text(), nullable=False),
        sa.Column("attachments", json_value, nullable=False),
        sa.Column("flags", json_value, nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("no_answer_reason", sa.Text(), nullable=True),
        sa.Column("answered_by", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("rings", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "(status = 'answered') = (answered_by IS NOT NULL)",
            name=op.f("ck_inbound_mails_answered_by_a_mail"),
        ),
        sa.CheckConstraint(
            "(status IN ('no_answer', 'parked')) = (no_answer_reason IS NOT NULL)",
            name=op.f("ck_inbound_mails_reason_for_no_answer"),
        ),
        sa.CheckConstraint(
            "status IN ('unanswered', 'answered', 'no_answer', 'parked')",
            name=op.f("ck_inbound_mails_status"),
        ),
        sa.ForeignKeyConstraint(
            ["answered_by"],
            ["outbound_mails.outbound_id"],
            name=op.f("fk_inbound_mails_answered_by"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_inbound_mails_conversation_id"),
        ),
        sa.PrimaryKeyConstraint("mail_id", name=op.f("pk_inbound_mails")),
        sa.UniqueConstraint("dedup_key", name=op.f("uq_inbound_mails_dedup_key")),
    )
    op.create_index(
        "ix_inbound_mails_conversation_id_received_at",
        "inbound_mails",
        ["conversation_id", "received_at"],
        unique=False,
    )
    op.create_index(
        "ix_inbound_mails_from_address_received_at",
        "inbound_mails",
        ["from_address", "received_at"],
        unique=False,
    )
    op.create_index("ix_inbound_mails_message_id", "inbound_mails", ["message_id"], unique=False)
    op.create_index(
        "ix_inbound_mails_parked",
        "inbound_mails",
        ["received_at"],
        unique=False,
        sqlite_where=sa.text("status = 'parked'"),
        postgresql_where=sa.text("status = 'parked'"),
    )
    op.create_index("ix_inbound_mails_received_at", "inbound_mails", ["received_at"], unique=False)
    op.create_index(
        "ix_inbound_mails_unanswered",
        "inbound_mails",
        ["received_at"],
        unique=False,
        sqlite_where=sa.text("status = 'unanswered'"),
        postgresql_where=sa.text("status = 'unanswered'"),
    )

    op.create_table(
        "raw_mails",
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["inbound_mails.mail_id"], name=op.f("fk_raw_mails_mail_id")
        ),
        sa.PrimaryKeyConstraint("mail_id", name=op.f("pk_raw_mails")),
    )
    op.create_table(
        "refunds",
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("proposal_key", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("policy_reasons", json_value, nullable=False),
        sa.Column("policy_facts", json_value, nullable=False),
        sa.Column("requested_at", instant, nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", instant, nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("gateway", sa.Text(), nullable=True),
        sa.Column("gateway_reference", sa.Text(), nullable=True),
        sa.Column("paid_at", instant, nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("rings", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "status <> 'paid' OR (gateway_reference IS NOT NULL AND paid_at IS NOT NULL)",
            name=op.f("ck_refunds_paid_has_reference"),
        ),
        sa.CheckConstraint(
            "status IN ('awaiting_approval', 'approved', 'paid', 'rejected', 'expired', 'withdrawn', 'failed')",
            name=op.f("ck_refunds_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refunds_amount")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_refunds_conversation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["inbound_mails.mail_id"], name=op.f("fk_refunds_mail_id")
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_refunds_order_id")
        ),
        sa.PrimaryKeyConstraint("refund_id", name=op.f("pk_refunds")),
        sa.UniqueConstraint("proposal_key", name=op.f("uq_refunds_proposal_key")),
    )
    op.create_index("ix_refunds_conversation_id", "refunds", ["conversation_id"], unique=False)
    op.create_index("ix_refunds_order_id", "refunds", ["order_id"], unique=False)
    op.create_index("ix_refunds_requested_at", "refunds", ["requested_at"], unique=False)
    op.create_index(
        "ix_refunds_under_way",
        "refunds",
        ["requested_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('awaiting_approval', 'approved')"),
        postgresql_where=sa.text("status IN ('awaiting_approval', 'approved')"),
    )

    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("requested_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["refund_id"], ["refunds.refund_id"], name=op.f("fk_approvals_refund_id")
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("refund_id", name=op.f("uq_approvals_refund_id")),
    )
    op.create_table(
        "refund_lines",
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("line_no", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_refund_lines_amount")),
        sa.CheckConstraint("quantity >= 1", name=op.f("ck_refund_lines_quantity")),
        sa.ForeignKeyConstraint(
            ["refund_id"], ["refunds.refund_id"], name=op.f("fk_refund_lines_refund_id")
        ),
        sa.PrimaryKeyConstraint("refund_id", "line_no", name=op.f("pk_refund_lines")),
    )
    op.create_table(
        "refund_payments",
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("intended_at", instant, nullable=False),
        sa.Column("done_at", instant, nullable=True),
        sa.CheckConstraint(
            "(state = 'done') = (reference IS NOT NULL)",
            name=op.f("ck_refund_payments_done_has_reference"),
        ),
        sa.CheckConstraint(
            "state IN ('asked', 'done', 'refused')", name=op.f("ck_refund_payments_state")
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refund_payments_amount")),
        sa.ForeignKeyConstraint(
            ["refund_id"], ["refunds.refund_id"], name=op.f("fk_refund_payments_refund_id")
        ),
        sa.PrimaryKeyConstraint("idempotency_key", name=op.f("pk_refund_payments")),
        sa.UniqueConstraint(
            "refund_id", "payment_id", name=op.f("uq_refund_payments_refund_id_payment_id")
        ),
    )
    op.create_table(
        "decisions",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", instant, nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint("decision IN ('approve', 'reject')", name=op.f("ck_decisions_decision")),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.approval_id"], name=op.f("fk_decisions_approval_id")
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_decisions")),
    )


def downgrade() -> None:
    raise RuntimeError("the first migration cannot be undone: drop the database instead")
