"""All tables of version 1.0.0, as they were then. The triggers that guard them are in the next one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Of PostgreSQL only: addresses by their beginning and by their domain, words of mails and conversations.
SEARCHED = (
    "CREATE INDEX ix_conversations_address ON conversations (customer_email text_pattern_ops)",
    "CREATE INDEX ix_conversations_domain ON conversations (split_part(customer_email, '@', 2), last_mail_at)",
    "CREATE INDEX ix_inbound_mails_words ON inbound_mails"
    " USING gin (to_tsvector('simple', from_name || ' ' || subject || ' ' || left(new_text, 4000)))",
    "CREATE INDEX ix_conversations_words ON conversations"
    " USING gin (to_tsvector('simple', customer_name || ' ' || subject))",
)


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=False)
    if op.get_bind().dialect.name == "postgresql":
        for statement in SEARCHED:
            op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("there is nothing before the first version: drop the database instead")


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
instant = sa.DateTime(timezone=True)
json_value = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def partial_index(name: str, *columns: str, where: str) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


sa.Table(
    "conversations",
    metadata,
    sa.Column("conversation_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False, index=True),
    sa.Column("customer_name", sa.Text, nullable=False, server_default=""),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("language", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    sa.Column("confirm_token", sa.Text, nullable=False, unique=True),
    sa.Column("team_token", sa.Text, nullable=False, unique=True),
    sa.Column("handed_over_reason", sa.Text),
    sa.Column("handed_over_at", instant),
    sa.Column("opened_at", instant, nullable=False),
    sa.Column("last_mail_at", instant, nullable=False, index=True),
    sa.Column("owner_email", sa.Text),
    sa.Column("content_purged_at", instant),
    sa.Column("progress", sa.Text, nullable=False, server_default="open"),
    sa.Column("snoozed_until", instant),
    sa.CheckConstraint("status IN ('open', 'handed_over')", name="status"),
    sa.CheckConstraint("progress IN ('open', 'pending', 'closed')", name="progress"),
    sa.Index(
        "ix_conversations_handed_over_reason_handed_over_at",
        "handed_over_reason",
        "handed_over_at",
    ),
    partial_index("ix_conversations_handed_over", "handed_over_at", where="status = 'handed_over'"),
    partial_index(
        "ix_conversations_wait_for_people",
        "handed_over_at",
        where="status = 'handed_over' AND progress = 'open'",
    ),
    sa.Index("ix_conversations_progress_last_mail_at", "progress", "last_mail_at"),
    partial_index(
        "ix_conversations_owner",
        "owner_email",
        "progress",
        "last_mail_at",
        where="owner_email IS NOT NULL",
    ),
    partial_index("ix_conversations_snoozed", "snoozed_until", where="snoozed_until IS NOT NULL"),
)

sa.Table(
    "conversation_tags",
    metadata,
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), primary_key=True),
    sa.Column("tag", sa.Text, primary_key=True),
    sa.Column("last_mail_at", instant, nullable=False),
    sa.Index("ix_conversation_tags_tag_last_mail_at", "tag", "last_mail_at"),
)

sa.Table(
    "conversation_notes",
    metadata,
    sa.Column("note_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("author_email", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("written_at", instant, nullable=False),
    sa.Index("ix_conversation_notes_conversation_id_written_at", "conversation_id", "written_at"),
)

sa.Table(
    "saved_replies",
    metadata,
    sa.Column("saved_reply_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("updated_by", sa.Text, nullable=False),
    sa.Column("updated_at", instant, nullable=False),
)

sa.Table(
    "inbound_mails",
    metadata,
    sa.Column("mail_id", sa.Text, primary_key=True),
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id")),
    sa.Column("from_address", sa.Text, nullable=False),
    sa.Column("from_name", sa.Text, nullable=False),
    sa.Column("envelope_from", sa.Text),
    sa.Column("envelope_to", json_value, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("message_id", sa.Text, index=True),
    sa.Column("same_message_id", sa.Integer, nullable=False, server_default="0"),
    sa.Column("in_reply_to", json_value, nullable=False),
    sa.Column("mail_references", json_value, nullable=False),
    sa.Column("sent_at", instant),
    sa.Column("received_at", instant, nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("new_text", sa.Text, nullable=False),
    sa.Column("attachments", json_value, nullable=False),
    sa.Column("flags", json_value, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("no_answer_reason", sa.Text),
    sa.Column("answered_by", sa.ForeignKey("outbound_mails.outbound_id")),
    sa.Column("run_id", sa.Text),
    sa.Column("wake_ups", sa.Integer, nullable=False, server_default="0"),
    sa.Column("put_off", sa.Integer, nullable=False, server_default="0"),
    sa.Column("draft_id", sa.Text),
    sa.Column("previews_made_at", instant),
    sa.Column("rate_limit_key", sa.Text),
    sa.CheckConstraint(
        "status IN ('unanswered', 'answered', 'no_answer', 'throttled')", name="status"
    ),
    sa.CheckConstraint(
        "(status = 'answered') = (answered_by IS NOT NULL)", name="answered_by_a_mail"
    ),
    sa.CheckConstraint(
        "(status IN ('no_answer', 'throttled')) = (no_answer_reason IS NOT NULL)",
        name="reason_for_no_answer",
    ),
    sa.Index("ix_inbound_mails_conversation_id_received_at", "conversation_id", "received_at"),
    sa.Index("ix_inbound_mails_from_address_received_at", "from_address", "received_at"),
    sa.Index("ix_inbound_mails_rate_limit_key_received_at", "rate_limit_key", "received_at"),
    partial_index("ix_inbound_mails_throttled", "received_at", where="status = 'throttled'"),
    partial_index("ix_inbound_mails_unanswered", "received_at", where="status = 'unanswered'"),
    partial_index("ix_inbound_mails_no_answer", "received_at", where="status = 'no_answer'"),
    partial_index(
        "ix_inbound_mails_reasons", "kind", "no_answer_reason", where="status = 'no_answer'"
    ),
    sa.Index(
        "ix_inbound_mails_without_previews",
        "received_at",
        sqlite_where=sa.text(
            "previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'"
        ),
        postgresql_where=sa.text(
            "previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'::jsonb"
        ),
    ),
)

sa.Table(
    "raw_mails",
    metadata,
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("received_at", instant, nullable=False, index=True),
)

sa.Table(
    "photo_previews",
    metadata,
    sa.Column(
        "mail_id",
        sa.Text,
        sa.ForeignKey("raw_mails.mail_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("picture", sa.LargeBinary),
    sa.Column("problem", sa.Text),
    sa.Column("made_at", instant, nullable=False),
    sa.CheckConstraint("(picture IS NULL) <> (problem IS NULL)", name="picture_or_problem"),
)

sa.Table(
    "outbound_mails",
    metadata,
    sa.Column("outbound_id", sa.Text, primary_key=True),
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id")),
    sa.Column("refund_id", sa.Text, index=True),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("to_address", sa.Text, nullable=False),
    sa.Column("from_address", sa.Text, nullable=False),
    sa.Column("reply_to", sa.Text),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("html", sa.Text),
    sa.Column("message_id", sa.Text, nullable=False, unique=True),
    sa.Column("in_reply_to", sa.Text),
    sa.Column("mail_references", json_value, nullable=False),
    sa.Column("auto_submitted", sa.Text, nullable=False),
    sa.Column("sources", json_value),
    sa.Column("written_from", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created_at", instant, nullable=False, index=True),
    sa.Column("next_attempt_at", instant),
    sa.Column("sending_at", instant),
    sa.Column("sent_at", instant),
    sa.Column("provider_id", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("refused_at", instant),
    sa.Column("refused_beside", sa.Integer, nullable=False, server_default="0"),
    sa.Column("put_off_at", instant),
    sa.Column("sent_again_why", sa.Text),
    sa.CheckConstraint(
        "status IN ('queued', 'sending', 'sent', 'failed', 'unknown', 'undelivered')", name="status"
    ),
    sa.Index("ix_outbound_mails_conversation_id_created_at", "conversation_id", "created_at"),
    sa.Index("ix_outbound_mails_to_address_created_at", "to_address", "created_at"),
    partial_index("ix_outbound_mails_quoting", "created_at", where="sources IS NOT NULL"),
    partial_index(
        "ix_outbound_mails_under_way", "created_at", where="status IN ('queued', 'sending')"
    ),
    partial_index(
        "ix_outbound_mails_lost",
        "created_at",
        where="status IN ('failed', 'unknown', 'undelivered')",
    ),
)

sa.Table(
    "outgoing_files",
    metadata,
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

sa.Table(
    "votes",
    metadata,
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("helped", sa.Boolean, nullable=False),
    sa.Column("at", instant, nullable=False, index=True),
)

sa.Table(
    "delivery_events",
    metadata,
    sa.Column("event_key", sa.Text, primary_key=True),
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("occurred_at", instant, nullable=False),
    sa.Column("received_at", instant, nullable=False),
    sa.Index("ix_delivery_events_outbound_id", "outbound_id"),
)

sa.Table(
    "suppressed_addresses",
    metadata,
    sa.Column("address", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("since", instant, nullable=False),
)

sa.Table(
    "drafts",
    metadata,
    sa.Column("draft_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_ids", json_value, nullable=False),
    sa.Column("topics", json_value, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("composition", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_at", instant, nullable=False),
    sa.Column("reminded_at", instant),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", instant),
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id")),
    sa.CheckConstraint(
        "state IN ('waiting', 'sent', 'edited', 'discarded', 'superseded')", name="state"
    ),
    sa.CheckConstraint("(state IN ('sent', 'edited')) = (outbound_id IS NOT NULL)", name="sent"),
    sa.Index("ix_drafts_conversation_id", "conversation_id"),
    partial_index("ix_drafts_waiting", "created_at", where="state = 'waiting'"),
)

sa.Table(
    "login_links",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("next_path", sa.Text, nullable=False),
    sa.Column("asked_at", instant, nullable=False),
    sa.Column("expires_at", instant, nullable=False, index=True),
    sa.Column("used_at", instant),
)

sa.Table(
    "login_attempts",
    metadata,
    sa.Column("attempt_id", row_number, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("client_address", sa.Text, nullable=False),
    sa.Column("at", instant, nullable=False, index=True),
)

sa.Table(
    "sessions",
    metadata,
    sa.Column("session_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("began_at", instant, nullable=False),
    sa.Column("expires_at", instant, nullable=False, index=True),
    sa.Column("ended_at", instant),
    sa.Column("verified_at", instant),
    sa.Column("offered_secret", sa.Text),
)

sa.Table(
    "second_factors",
    metadata,
    sa.Column("email", sa.Text, primary_key=True),
    sa.Column("encrypted_secret", sa.Text, nullable=False),
    sa.Column("last_step", sa.BigInteger, nullable=False),
    sa.Column("enrolled_at", instant, nullable=False),
)

sa.Table(
    "step_texts",
    metadata,
    sa.Column("text_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("at", instant, nullable=False, index=True),
    sa.Column("words", sa.JSON(), nullable=False),
    sa.Index("ix_step_texts_conversation_id", "conversation_id"),
)

sa.Table(
    "comparisons",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("at", instant, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("differs", sa.Text, nullable=False),
    sa.Column("draft", sa.Text),
    sa.Column("past", json_value, nullable=False),
    sa.Column("now", json_value, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("cost_micro_usd", sa.BigInteger, nullable=False),
    sa.Column("milliseconds", sa.Integer, nullable=False),
    sa.Index("ix_comparisons_conversation_id", "conversation_id"),
)

sa.Table(
    "model_calls",
    metadata,
    sa.Column("call_id", row_number, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("at", instant, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("cached_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("cost_micro_usd", sa.BigInteger),
    sa.Column("prompt_version", sa.Text),
    sa.Column("tools_version", sa.Text),
    sa.Index("ix_model_calls_conversation_id", "conversation_id"),
)

sa.Table(
    "dismissals",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("dismissed_by", sa.Text, nullable=False),
    sa.Column("at", instant, nullable=False),
)

sa.Table(
    "workers",
    metadata,
    sa.Column("worker_id", sa.Text, primary_key=True),
    sa.Column("seen_at", instant, nullable=False),
    sa.Column("steady_since", instant, nullable=False),
)

sa.Table(
    "breakers",
    metadata,
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("opened_at", instant),
    sa.Column("until_at", instant),
    sa.Column("needs_operator", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("why", sa.Text, nullable=False, server_default=""),
    sa.CheckConstraint("(opened_at IS NULL) = (until_at IS NULL)", name="open"),
)

sa.Table(
    "rate_limits",
    metadata,
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("requests_until", sa.BigInteger, nullable=False),
    sa.Column("tokens_until", sa.BigInteger, nullable=False),
)

sa.Table(
    "counters",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("detail", sa.Text, primary_key=True),
    sa.Column("quantity", sa.Text, primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
)

sa.Table(
    "counter_marks",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("counted_until", instant, nullable=False),
)

sa.Table(
    "daily_figures",
    metadata,
    sa.Column("day", instant, primary_key=True),
    sa.Column("figure", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

sa.Table(
    "audit",
    metadata,
    sa.Column("audit_id", row_number, primary_key=True),
    sa.Column("at", instant, nullable=False, index=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("details", json_value, nullable=False),
    sa.Index("ix_audit_actor_at", "actor", "at"),
    sa.Index("ix_audit_action_at", "action", "at"),
)

sa.Table(
    "orders",
    metadata,
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False),
    sa.Column("customer_name", sa.Text, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("placed_at", instant, nullable=False),
    sa.Column("delivered_at", instant),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("paid_minor", sa.BigInteger, nullable=False),
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("tax_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("held_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shipment_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("updated_at", instant, nullable=False),
    sa.Column("seen_at", instant),
    sa.Column("look_up_problem", sa.Text),
    sa.Column("look_up_problem_at", instant),
    sa.CheckConstraint("status IN ('pending', 'shipped', 'delivered', 'cancelled')", name="status"),
    sa.CheckConstraint("paid_minor >= 0", name="paid"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
    sa.CheckConstraint("tax_minor >= 0", name="tax"),
    sa.CheckConstraint("shipping_minor >= 0", name="shipping"),
    sa.CheckConstraint("held_minor >= 0 AND held_minor <= paid_minor", name="never_above_paid"),
    sa.Index("ix_orders_customer_email_placed_at", "customer_email", "placed_at"),
)

sa.Table(
    "order_lines",
    metadata,
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("unit_price_minor", sa.BigInteger, nullable=False),
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("category", sa.Text),
    sa.Column("final_sale", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint("quantity >= 1", name="quantity"),
    sa.CheckConstraint("unit_price_minor >= 0", name="unit_price"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
)

sa.Table(
    "order_payments",
    metadata,
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("payment_id", sa.Text, primary_key=True, index=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("charged_back_at", instant),
    sa.CheckConstraint("amount_minor >= 0", name="amount"),
)

sa.Table(
    "order_shipments",
    metadata,
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("shipment_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("carrier", sa.Text),
    sa.Column("tracking_number", sa.Text),
    sa.Column("tracking_url", sa.Text),
    sa.Column("shipped_at", instant),
    sa.Column("expected_at", instant),
    sa.Column("delivered_at", instant),
    sa.Column("last_event_at", instant),
    sa.Column("items", json_value, nullable=False),
    sa.CheckConstraint(
        "status IN ('label_created', 'in_transit', 'out_for_delivery', 'delivered', 'exception', 'returned')",
        name="status",
    ),
)

sa.Table(
    "order_versions",
    metadata,
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("fetched_at", instant, nullable=False, index=True),
    sa.Column("record", json_value, nullable=False),
)

sa.Table(
    "order_lookups",
    metadata,
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), primary_key=True),
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("looked_up_at", instant, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
)

sa.Table(
    "refunds",
    metadata,
    sa.Column("refund_id", sa.Text, primary_key=True),
    sa.Column("proposal_key", sa.Text, nullable=False, unique=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("short_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("four_eyes", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("despite_cancel", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("proposed_by", sa.Text),
    sa.Column("approved_for", sa.Text),
    sa.Column("policy_version", sa.Text),
    sa.Column("policy_reasons", json_value, nullable=False),
    sa.Column("policy_facts", json_value, nullable=False),
    sa.Column("requested_at", instant, nullable=False, index=True),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", instant),
    sa.Column("note", sa.Text),
    sa.Column("gateway", sa.Text),
    sa.Column("gateway_reference", sa.Text),
    sa.Column("paid_at", instant),
    sa.Column("failure", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.Column("wake_ups", sa.Integer, nullable=False, server_default="0"),
    sa.Column("look_up_problem_met_at", instant),
    sa.Column("receipt_id", sa.Text),
    sa.Column("credit_bonus", sa.Integer),
    sa.Column("keeps_items", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint(
        "status IN ('awaiting_approval', 'approved', 'paid', 'rejected', 'expired', 'withdrawn', 'failed')",
        name="status",
    ),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("shipping_minor >= 0", name="shipping"),
    sa.CheckConstraint("short_minor >= 0", name="short"),
    sa.CheckConstraint("credit_bonus BETWEEN 0 AND 100", name="credit_bonus"),
    sa.CheckConstraint(
        "status <> 'paid' OR (gateway_reference IS NOT NULL AND paid_at IS NOT NULL)",
        name="paid_has_reference",
    ),
    sa.Index("ix_refunds_conversation_id", "conversation_id"),
    sa.Index("ix_refunds_status_currency_amount_minor", "status", "currency", "amount_minor"),
    partial_index(
        "ix_refunds_under_way", "requested_at", where="status IN ('awaiting_approval', 'approved')"
    ),
    partial_index("ix_refunds_failed", "requested_at", where="status = 'failed'"),
)

sa.Table(
    "refund_lines",
    metadata,
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("approved_quantity", sa.Integer),
    sa.Column("is_rest", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint("quantity >= 1", name="quantity"),
    sa.CheckConstraint("approved_quantity BETWEEN 0 AND quantity", name="approved"),
    sa.CheckConstraint("amount_minor >= 0", name="amount"),
)

sa.Table(
    "refund_payments",
    metadata,
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False, index=True),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reference", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("intended_at", instant, nullable=False),
    sa.Column("asking_since", instant),
    sa.Column("asked_gateway", sa.Text),
    sa.Column("done_at", instant),
    sa.Column("returned_at", instant),
    sa.UniqueConstraint("refund_id", "payment_id"),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("state IN ('asked', 'done', 'refused')", name="state"),
    sa.CheckConstraint("(state = 'done') = (reference IS NOT NULL)", name="done_has_reference"),
)

sa.Table(
    "approvals",
    metadata,
    sa.Column("approval_id", sa.Text, primary_key=True),
    sa.Column(
        "refund_id", sa.Text, sa.ForeignKey("refunds.refund_id"), nullable=False, unique=True
    ),
    sa.Column("requested_at", instant, nullable=False),
    sa.Column("expires_at", instant, nullable=False),
)


def decisions_table(name: str) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), primary_key=True),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_at", instant, nullable=False),
        sa.Column("amount_minor", sa.BigInteger),
        sa.Column("note", sa.Text),
        sa.Column("note_shared", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("mail_id", sa.Text),
        sa.Column("quantities", json_value, nullable=False),
        sa.Column("despite_cancel", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("approved_for", sa.Text),
        sa.Column("undo_until", instant),
        sa.Column("offer_percent", sa.Integer),
        sa.CheckConstraint(
            "offer_percent IS NULL OR decision = 'reject' AND offer_percent BETWEEN 1 AND 99",
            name="offer",
        ),
        sa.CheckConstraint("decision IN ('approve', 'reject')", name="decision"),
    )


decisions_table("decisions")
decisions_table("countersignatures")

sa.Table(
    "approval_requests",
    metadata,
    sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), primary_key=True),
    sa.Column("question", sa.Text, primary_key=True),
    sa.Column("manager_email", sa.Text, primary_key=True),
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    sa.Column("asked_at", instant, nullable=False),
    sa.Column("reminders", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reminded_at", instant),
    sa.Column("skipped_at", instant),
    sa.Column("skipped_why", sa.Text),
    sa.CheckConstraint("question IN ('approve', 'countersign')", name="question"),
    sa.CheckConstraint("(skipped_at IS NULL) = (skipped_why IS NULL)", name="skipped"),
)

sa.Table(
    "approval_notes",
    metadata,
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), nullable=False, index=True),
    sa.Column("manager_email", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("written_at", instant, nullable=False),
)

sa.Table(
    "manager_absences",
    metadata,
    sa.Column("manager_email", sa.Text, primary_key=True),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("since", instant, nullable=False),
    sa.Column("until", instant, nullable=False),
)

sa.Table(
    "policy_versions",
    metadata,
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("first_used_at", instant, nullable=False),
)

sa.Table(
    "external_refunds",
    metadata,
    sa.Column("reference", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("payment_id", sa.Text, nullable=False, index=True),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("seen_at", instant, nullable=False),
    sa.Column("returned_at", instant),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
)

sa.Table(
    "gateway_events",
    metadata,
    sa.Column("event_id", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("occurred_at", instant, nullable=False),
    sa.Column("received_at", instant, nullable=False, index=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("body", json_value, nullable=False),
)

sa.Table(
    "gateway_event_payments",
    metadata,
    sa.Column("payment_id", sa.Text, primary_key=True),
    sa.Column("event_id", sa.ForeignKey("gateway_events.event_id"), primary_key=True, index=True),
)

sa.Table(
    "remedies",
    metadata,
    sa.Column("remedy_id", sa.Text, primary_key=True),
    sa.Column("proposal_key", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column(
        "conversation_id",
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
        index=True,
    ),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("items", json_value, nullable=False),
    sa.Column("wish", sa.Text),
    sa.Column("address", json_value),
    sa.Column("reason", sa.Text),
    sa.Column("policy_reasons", json_value, nullable=False),
    sa.Column("policy_version", sa.Text),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), unique=True),
    sa.Column("requested_at", instant, nullable=False),
    sa.Column("due_at", instant, nullable=False),
    sa.Column("asked_at", instant),
    sa.Column("instructions", sa.Text),
    sa.Column("reminded_at", instant),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", instant),
    sa.Column("note", sa.Text),
    sa.CheckConstraint(
        "kind IN ('exchange', 'replacement', 'change_address', 'cancel', 'return')", name="kind"
    ),
    sa.CheckConstraint(
        "status IN ('asked', 'task', 'awaiting_goods', 'done', 'not_possible', 'withdrawn', 'expired')",
        name="status",
    ),
    sa.CheckConstraint(
        "(status IN ('asked', 'task', 'awaiting_goods')) = (decided_at IS NULL)", name="decided"
    ),
    sa.Index("ix_remedies_status_decided_at", "status", "decided_at"),
    partial_index("ix_remedies_tasks", "requested_at", where="status = 'task'"),
    partial_index("ix_remedies_due", "due_at", where="status = 'task'"),
    partial_index("ix_remedies_asked", "requested_at", where="status = 'asked'"),
)

sa.Table(
    "goodwill_codes",
    metadata,
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("percent", sa.Integer, nullable=False),
    sa.Column("policy_version", sa.Text),
    sa.Column("issued_at", instant, nullable=False),
    sa.Column("expires_at", instant, nullable=False),
    sa.Column("used_at", instant),
    sa.Column("used_on", sa.Text),
    sa.CheckConstraint("percent BETWEEN 1 AND 100", name="percent"),
    sa.CheckConstraint("(used_at IS NULL) = (used_on IS NULL)", name="used_once"),
    sa.Index("ix_goodwill_codes_conversation_id", "conversation_id"),
)

sa.Table(
    "offers",
    metadata,
    sa.Column("offer_id", sa.Text, primary_key=True),
    sa.Column("offer_key", sa.Text, nullable=False, unique=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("items", json_value, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("percent", sa.Integer, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("offered_by", sa.Text, nullable=False),
    sa.Column("policy_version", sa.Text, nullable=False),
    sa.Column("offered_at", instant, nullable=False),
    sa.Column("expires_at", instant, nullable=False),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), unique=True),
    sa.Column("instead_of", sa.ForeignKey("refunds.refund_id"), unique=True),
    sa.CheckConstraint(
        "status IN ('open', 'accepted', 'declined', 'lapsed', 'expired')",
        name="status",
    ),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("percent BETWEEN 1 AND 99", name="percent"),
    sa.CheckConstraint("(status = 'accepted') = (refund_id IS NOT NULL)", name="accepted"),
    partial_index("ix_offers_open", "expires_at", where="status = 'open'"),
)

sa.Table(
    "ledger_entries",
    metadata,
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("reference", sa.Text, nullable=False, unique=True),
    sa.Column("refund_id", sa.Text, nullable=False),
    sa.Column("order_id", sa.Text, nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("credit_minor", sa.BigInteger),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("recorded_at", instant, nullable=False),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("credit_minor >= amount_minor", name="credit"),
)

sa.Table(
    "ledger_settlements",
    metadata,
    sa.Column("idempotency_key", sa.ForeignKey("ledger_entries.idempotency_key"), primary_key=True),
    sa.Column("refund_id", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("recorded_at", instant, nullable=False),
    sa.Column("due_at", instant, nullable=False),
    sa.Column("promised", sa.Boolean, nullable=False),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", instant),
    sa.Column("bank_reference", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("reminded_at", instant),
    sa.CheckConstraint("state IN ('open', 'settled', 'failed')", name="state"),
    sa.CheckConstraint("(state = 'open') = (decided_at IS NULL)", name="decided"),
    sa.CheckConstraint("(state = 'failed') = (reason IS NOT NULL)", name="failed_with_a_reason"),
    sa.Index("ix_ledger_settlements_state_decided_at", "state", "decided_at"),
    partial_index("ix_ledger_settlements_open", "recorded_at", where="state = 'open'"),
    partial_index(
        "ix_ledger_settlements_overdue", "due_at", where="state = 'open' AND reminded_at IS NULL"
    ),
)
