"""All tables of version 1.0.0. The triggers that guard them are in the next one."""

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

# Of PostgreSQL only: addresses by their beginning and by their domain, and the words of mails.
SEARCHED = (
    "CREATE INDEX ix_conversations_address ON conversations (customer_email text_pattern_ops)",
    "CREATE INDEX ix_conversations_domain ON conversations (split_part(customer_email, '@', 2), last_mail_at)",
    "CREATE INDEX ix_inbound_mails_words ON inbound_mails"
    " USING gin (to_tsvector('simple', subject || ' ' || left(new_text, 4000)))",
)


def upgrade() -> None:  # noqa: PLR0915 - a list of all tables
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
    op.create_index("ix_audit_action_at", "audit", ["action", "at"])
    op.create_index("ix_audit_actor_at", "audit", ["actor", "at"])
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_table(
        "breakers",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("opened_at", instant, nullable=True),
        sa.Column("until_at", instant, nullable=True),
        sa.Column("needs_operator", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint(
            "provider IN ('openai', 'sendgrid', 'stripe')", name=op.f("ck_breakers_provider")
        ),
        sa.CheckConstraint(
            "(opened_at IS NULL) = (until_at IS NULL)", name=op.f("ck_breakers_open")
        ),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_breakers")),
    )
    op.create_table(
        "conversations",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("customer_email", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=True),
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
        sa.Column("owner_email", sa.Text(), nullable=True),
        sa.Column("content_purged_at", instant, nullable=True),
        sa.CheckConstraint(
            "status IN ('open', 'handed_over')", name=op.f("ck_conversations_status")
        ),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_conversations")),
        sa.UniqueConstraint("confirm_token", name=op.f("uq_conversations_confirm_token")),
        sa.UniqueConstraint("reply_token", name=op.f("uq_conversations_reply_token")),
        sa.UniqueConstraint("team_token", name=op.f("uq_conversations_team_token")),
    )
    op.create_index("ix_conversations_customer_email", "conversations", ["customer_email"])
    op.create_index(
        "ix_conversations_handed_over",
        "conversations",
        ["handed_over_at"],
        sqlite_where=sa.text("status = 'handed_over'"),
        postgresql_where=sa.text("status = 'handed_over'"),
    )
    op.create_index("ix_conversations_last_mail_at", "conversations", ["last_mail_at"])
    op.create_table(
        "gateway_events",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("occurred_at", instant, nullable=False),
        sa.Column("received_at", instant, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("body", json_value, nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_gateway_events")),
    )
    op.create_index("ix_gateway_events_received_at", "gateway_events", ["received_at"])
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
        "login_attempts",
        sa.Column(
            "attempt_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("client_address", sa.Text(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_login_attempts")),
    )
    op.create_index("ix_login_attempts_at", "login_attempts", ["at"])
    op.create_table(
        "login_links",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("next_path", sa.Text(), nullable=False),
        sa.Column("asked_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.Column("used_at", instant, nullable=True),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_login_links")),
    )
    op.create_index("ix_login_links_expires_at", "login_links", ["expires_at"])
    op.create_table(
        "manager_absences",
        sa.Column("manager_email", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("since", instant, nullable=False),
        sa.Column("until", instant, nullable=False),
        sa.PrimaryKeyConstraint("manager_email", name=op.f("pk_manager_absences")),
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
        sa.Column("discount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tax_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("shipping_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("updated_at", instant, nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'shipped', 'delivered', 'cancelled')",
            name=op.f("ck_orders_status"),
        ),
        sa.CheckConstraint("discount_minor >= 0", name=op.f("ck_orders_discount")),
        sa.CheckConstraint(
            "held_minor >= 0 AND held_minor <= paid_minor", name=op.f("ck_orders_never_above_paid")
        ),
        sa.CheckConstraint("paid_minor >= 0", name=op.f("ck_orders_paid")),
        sa.CheckConstraint("shipping_minor >= 0", name=op.f("ck_orders_shipping")),
        sa.CheckConstraint("tax_minor >= 0", name=op.f("ck_orders_tax")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_orders")),
    )
    op.create_index("ix_orders_customer_email_placed_at", "orders", ["customer_email", "placed_at"])
    op.create_table(
        "rate_limits",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("requests_until", sa.BigInteger(), nullable=False),
        sa.Column("tokens_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_rate_limits")),
    )
    op.create_table(
        "policy_versions",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("first_used_at", instant, nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_policy_versions")),
    )
    op.create_table(
        "dismissals",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("dismissed_by", sa.Text(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_dismissals")),
    )
    op.create_table(
        "second_factors",
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("encrypted_secret", sa.Text(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("enrolled_at", instant, nullable=False),
        sa.PrimaryKeyConstraint("email", name=op.f("pk_second_factors")),
    )
    op.create_table(
        "sessions",
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("began_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.Column("ended_at", instant, nullable=True),
        sa.Column("verified_at", instant, nullable=True),
        sa.Column("offered_secret", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("session_hash", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "suppressed_addresses",
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", instant, nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_suppressed_addresses")),
    )
    op.create_table(
        "counters",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "label", "detail", "quantity", name=op.f("pk_counters")),
    )
    op.create_table(
        "counter_marks",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("counted_until", instant, nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_counter_marks")),
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("seen_at", instant, nullable=False),
        sa.Column("steady_since", instant, nullable=True),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
    )
    op.create_table(
        "gateway_event_payments",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["event_id"],
            ["gateway_events.event_id"],
            name=op.f("fk_gateway_event_payments_event_id"),
        ),
        sa.PrimaryKeyConstraint("payment_id", "event_id", name=op.f("pk_gateway_event_payments")),
    )
    op.create_index("ix_gateway_event_payments_event_id", "gateway_event_payments", ["event_id"])
    op.create_table(
        "model_calls",
        sa.Column(
            "call_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("at", instant, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_micro_usd", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_model_calls_conversation_id"),
        ),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_model_calls")),
    )
    op.create_index("ix_model_calls_at", "model_calls", ["at"])
    op.create_index("ix_model_calls_conversation_id", "model_calls", ["conversation_id"])
    op.create_table(
        "order_lines",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("line_no", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("unit_price_minor", sa.BigInteger(), nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("final_sale", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("discount_minor >= 0", name=op.f("ck_order_lines_discount")),
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
        sa.Column("charged_back_at", instant, nullable=True),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_order_payments_amount")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_order_payments_order_id")
        ),
        sa.PrimaryKeyConstraint("order_id", "payment_id", name=op.f("pk_order_payments")),
    )
    op.create_index("ix_order_payments_payment_id", "order_payments", ["payment_id"])
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
        sa.Column("sources", json_value, nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("next_attempt_at", instant, nullable=True),
        sa.Column("sending_at", instant, nullable=True),
        sa.Column("sent_at", instant, nullable=True),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("refused_at", instant, nullable=True),
        sa.Column("refused_beside", sa.Integer(), server_default="0", nullable=False),
        sa.Column("put_off_at", instant, nullable=True),
        sa.Column("sent_again_why", sa.Text(), nullable=True),
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
    )
    op.create_index("ix_outbound_mails_created_at", "outbound_mails", ["created_at"])
    op.create_index(
        "ix_outbound_mails_lost",
        "outbound_mails",
        ["created_at"],
        sqlite_where=sa.text("status IN ('failed', 'unknown', 'undelivered')"),
        postgresql_where=sa.text("status IN ('failed', 'unknown', 'undelivered')"),
    )
    op.create_index("ix_outbound_mails_refund_id", "outbound_mails", ["refund_id"])
    op.create_index(
        "ix_outbound_mails_to_address_created_at", "outbound_mails", ["to_address", "created_at"]
    )
    op.create_index(
        "ix_outbound_mails_under_way",
        "outbound_mails",
        ["created_at"],
        sqlite_where=sa.text("status IN ('queued', 'sending')"),
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )
    op.create_table(
        "external_refunds",
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("seen_at", instant, nullable=False),
        sa.Column("returned_at", instant, nullable=True),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_external_refunds_amount")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_external_refunds_order_id")
        ),
        sa.PrimaryKeyConstraint("reference", name=op.f("pk_external_refunds")),
    )
    op.create_index("ix_external_refunds_order_id", "external_refunds", ["order_id"])
    op.create_index("ix_external_refunds_payment_id", "external_refunds", ["payment_id"])
    op.create_table(
        "step_texts",
        sa.Column("text_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.Column("words", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_step_texts_conversation_id"),
        ),
        sa.PrimaryKeyConstraint("text_id", name=op.f("pk_step_texts")),
    )
    op.create_index("ix_step_texts_at", "step_texts", ["at"])
    op.create_index("ix_step_texts_conversation_id", "step_texts", ["conversation_id"])
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
    op.create_index("ix_delivery_events_outbound_id", "delivery_events", ["outbound_id"])
    op.create_table(
        "drafts",
        sa.Column("draft_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("mail_ids", json_value, nullable=False),
        sa.Column("topics", json_value, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("composition", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("reminded_at", instant, nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", instant, nullable=True),
        sa.Column("outbound_id", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state IN ('sent', 'edited')) = (outbound_id IS NOT NULL)", name=op.f("ck_drafts_sent")
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'sent', 'edited', 'discarded', 'superseded')",
            name=op.f("ck_drafts_state"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_drafts_conversation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["outbound_id"], ["outbound_mails.outbound_id"], name=op.f("fk_drafts_outbound_id")
        ),
        sa.PrimaryKeyConstraint("draft_id", name=op.f("pk_drafts")),
    )
    op.create_index("ix_drafts_conversation_id", "drafts", ["conversation_id"])
    op.create_index(
        "ix_drafts_waiting",
        "drafts",
        ["created_at"],
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
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
        sa.Column("wake_ups", sa.Integer(), server_default="0", nullable=False),
        sa.Column("put_off", sa.Integer(), server_default="0", nullable=False),
        sa.Column("draft_id", sa.Text(), nullable=True),
        sa.Column("previews_made_at", instant, nullable=True),
        sa.Column("rate_limit_key", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(status = 'answered') = (answered_by IS NOT NULL)",
            name=op.f("ck_inbound_mails_answered_by_a_mail"),
        ),
        sa.CheckConstraint(
            "(status IN ('no_answer', 'throttled')) = (no_answer_reason IS NOT NULL)",
            name=op.f("ck_inbound_mails_reason_for_no_answer"),
        ),
        sa.CheckConstraint(
            "status IN ('unanswered', 'answered', 'no_answer', 'throttled')",
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
    )
    op.create_index(
        "ix_inbound_mails_from_address_received_at",
        "inbound_mails",
        ["from_address", "received_at"],
    )
    op.create_index("ix_inbound_mails_message_id", "inbound_mails", ["message_id"])
    op.create_index(
        "ix_inbound_mails_no_answer",
        "inbound_mails",
        ["received_at"],
        sqlite_where=sa.text("status = 'no_answer'"),
        postgresql_where=sa.text("status = 'no_answer'"),
    )
    op.create_index(
        "ix_inbound_mails_throttled",
        "inbound_mails",
        ["received_at"],
        sqlite_where=sa.text("status = 'throttled'"),
        postgresql_where=sa.text("status = 'throttled'"),
    )
    op.create_index(
        "ix_inbound_mails_rate_limit_key_received_at",
        "inbound_mails",
        ["rate_limit_key", "received_at"],
    )
    op.create_index(
        "ix_inbound_mails_reasons",
        "inbound_mails",
        ["kind", "no_answer_reason"],
        sqlite_where=sa.text("status = 'no_answer'"),
        postgresql_where=sa.text("status = 'no_answer'"),
    )
    op.create_index("ix_inbound_mails_received_at", "inbound_mails", ["received_at"])
    op.create_index(
        "ix_inbound_mails_unanswered",
        "inbound_mails",
        ["received_at"],
        sqlite_where=sa.text("status = 'unanswered'"),
        postgresql_where=sa.text("status = 'unanswered'"),
    )
    op.create_index(
        "ix_inbound_mails_without_previews",
        "inbound_mails",
        ["received_at"],
        sqlite_where=sa.text(
            "previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'"
        ),
        postgresql_where=sa.text(
            "previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'::jsonb"
        ),
    )
    op.create_table(
        "goodwill_codes",
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("percent", sa.Integer(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=True),
        sa.Column("issued_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.Column("used_at", instant, nullable=True),
        sa.Column("used_on", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(used_at IS NULL) = (used_on IS NULL)", name=op.f("ck_goodwill_codes_used_once")
        ),
        sa.CheckConstraint("percent BETWEEN 1 AND 100", name=op.f("ck_goodwill_codes_percent")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.conversation_id"],
            name=op.f("fk_goodwill_codes_conversation_id"),
        ),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["inbound_mails.mail_id"], name=op.f("fk_goodwill_codes_mail_id")
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_goodwill_codes_order_id")
        ),
        sa.PrimaryKeyConstraint("code", name=op.f("pk_goodwill_codes")),
        sa.UniqueConstraint("order_id", name=op.f("uq_goodwill_codes_order_id")),
    )
    op.create_index("ix_goodwill_codes_conversation_id", "goodwill_codes", ["conversation_id"])
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
    op.create_index("ix_raw_mails_received_at", "raw_mails", ["received_at"])
    op.create_table(
        "refunds",
        sa.Column("refund_id", sa.Text(), nullable=False),
        sa.Column("proposal_key", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("shipping_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("short_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("four_eyes", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("despite_cancel", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("approved_for", sa.Text(), nullable=True),
        sa.Column("policy_version", sa.Text(), nullable=True),
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
        sa.Column("wake_ups", sa.Integer(), server_default="0", nullable=False),
        sa.Column("receipt_id", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status <> 'paid' OR (gateway_reference IS NOT NULL AND paid_at IS NOT NULL)",
            name=op.f("ck_refunds_paid_has_reference"),
        ),
        sa.CheckConstraint(
            "status IN ('awaiting_approval', 'approved', 'paid', 'rejected', 'expired', 'withdrawn', 'failed')",
            name=op.f("ck_refunds_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refunds_amount")),
        sa.CheckConstraint("shipping_minor >= 0", name=op.f("ck_refunds_shipping")),
        sa.CheckConstraint("short_minor >= 0", name=op.f("ck_refunds_short")),
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
    op.create_index("ix_refunds_conversation_id", "refunds", ["conversation_id"])
    op.create_index(
        "ix_refunds_failed",
        "refunds",
        ["requested_at"],
        sqlite_where=sa.text("status = 'failed'"),
        postgresql_where=sa.text("status = 'failed'"),
    )
    op.create_index("ix_refunds_order_id", "refunds", ["order_id"])
    op.create_index("ix_refunds_requested_at", "refunds", ["requested_at"])
    op.create_index(
        "ix_refunds_status_currency_amount_minor", "refunds", ["status", "currency", "amount_minor"]
    )
    op.create_index(
        "ix_refunds_under_way",
        "refunds",
        ["requested_at"],
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
        "photo_previews",
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("made_at", instant, nullable=False),
        sa.CheckConstraint(
            "(picture IS NULL) <> (problem IS NULL)",
            name=op.f("ck_photo_previews_picture_or_problem"),
        ),
        sa.ForeignKeyConstraint(
            ["mail_id"],
            ["raw_mails.mail_id"],
            name=op.f("fk_photo_previews_mail_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("mail_id", "number", name=op.f("pk_photo_previews")),
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
        sa.Column("returned_at", instant, nullable=True),
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
    op.create_index("ix_refund_payments_payment_id", "refund_payments", ["payment_id"])
    op.create_table(
        "approval_requests",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("manager_email", sa.Text(), nullable=False),
        sa.Column("reply_token", sa.Text(), nullable=False),
        sa.Column("asked_at", instant, nullable=False),
        sa.Column("reminders", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reminded_at", instant, nullable=True),
        sa.Column("skipped_at", instant, nullable=True),
        sa.Column("skipped_why", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "question IN ('approve', 'countersign')", name=op.f("ck_approval_requests_question")
        ),
        sa.CheckConstraint(
            "(skipped_at IS NULL) = (skipped_why IS NULL)",
            name=op.f("ck_approval_requests_skipped"),
        ),
        sa.ForeignKeyConstraint(
            ["approval_id"],
            ["approvals.approval_id"],
            name=op.f("fk_approval_requests_approval_id"),
        ),
        sa.PrimaryKeyConstraint(
            "approval_id", "question", "manager_email", name=op.f("pk_approval_requests")
        ),
        sa.UniqueConstraint("reply_token", name=op.f("uq_approval_requests_reply_token")),
    )
    op.create_table(
        "approval_notes",
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("manager_email", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("written_at", instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.approval_id"], name=op.f("fk_approval_notes_approval_id")
        ),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["inbound_mails.mail_id"], name=op.f("fk_approval_notes_mail_id")
        ),
        sa.PrimaryKeyConstraint("mail_id", name=op.f("pk_approval_notes")),
    )
    op.create_index("ix_approval_notes_approval_id", "approval_notes", ["approval_id"])
    op.create_table(
        "countersignatures",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", instant, nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("note_shared", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "decision IN ('approve', 'reject')", name=op.f("ck_countersignatures_decision")
        ),
        sa.ForeignKeyConstraint(
            ["approval_id"],
            ["approvals.approval_id"],
            name=op.f("fk_countersignatures_approval_id"),
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_countersignatures")),
    )
    op.create_table(
        "decisions",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", instant, nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("note_shared", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=True),
        sa.CheckConstraint("decision IN ('approve', 'reject')", name=op.f("ck_decisions_decision")),
        sa.ForeignKeyConstraint(
            ["approval_id"], ["approvals.approval_id"], name=op.f("fk_decisions_approval_id")
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_decisions")),
    )

    if op.get_bind().dialect.name == "postgresql":
        for statement in SEARCHED:
            op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("there is nothing before the first version: drop the database instead")
