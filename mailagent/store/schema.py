"""Every table of the app, with the constraints that hold even when code is wrong.

Triggers live in `migrations`: they keep `orders.held_minor` (refunds paid and under way) and make the
audit table append-only. So does the index of words in mail, which only PostgreSQL has. DBOS keeps
its own tables in the schema `dbos`.
"""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.database import UtcDateTime

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Json = sa.JSON().with_variant(JSONB(), "postgresql")


def _one_of(column: str, values: type[StrEnum]) -> sa.CheckConstraint:
    names = ", ".join(f"'{value.value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({names})", name=column)


orders = sa.Table(
    "orders",
    metadata,
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False),
    sa.Column("customer_name", sa.Text, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("placed_at", UtcDateTime, nullable=False),
    sa.Column("delivered_at", UtcDateTime),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("paid_minor", sa.BigInteger, nullable=False),
    # Taken off the lines together, on top of them, and for carriage.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("tax_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    # Kept by triggers on refunds and their payments: what was refunded or is under way.
    sa.Column("held_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    _one_of("status", OrderStatus),
    sa.CheckConstraint("paid_minor >= 0", name="paid"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
    sa.CheckConstraint("tax_minor >= 0", name="tax"),
    sa.CheckConstraint("shipping_minor >= 0", name="shipping"),
    sa.CheckConstraint("held_minor >= 0 AND held_minor <= paid_minor", name="never_above_paid"),
    sa.Index("ix_orders_customer_email_placed_at", "customer_email", "placed_at"),
)

order_lines = sa.Table(
    "order_lines",
    metadata,
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("unit_price_minor", sa.BigInteger, nullable=False),
    # Off the whole line, all its units together.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("category", sa.Text),
    sa.Column("final_sale", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint("quantity >= 1", name="quantity"),
    sa.CheckConstraint("unit_price_minor >= 0", name="unit_price"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
)

order_payments = sa.Table(
    "order_payments",
    metadata,
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("payment_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    # The bank took it back for the customer: nothing is refunded on it beside that.
    sa.Column("charged_back_at", UtcDateTime),
    sa.CheckConstraint("amount_minor >= 0", name="amount"),
    sa.Index("ix_order_payments_payment_id", "payment_id"),
)

conversations = sa.Table(
    "conversations",
    metadata,
    sa.Column("conversation_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    # In which our own mails to the customer are written; none while it is not known.
    sa.Column("language", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    # Mailed only to the customer's address: who answers it holds that mailbox.
    sa.Column("confirm_token", sa.Text, nullable=False, unique=True),
    # Mailed only to the support team: its answers go to the customer.
    sa.Column("team_token", sa.Text, nullable=False, unique=True),
    sa.Column("handed_over_reason", sa.Text),
    sa.Column("handed_over_at", UtcDateTime),
    sa.Column("opened_at", UtcDateTime, nullable=False),
    sa.Column("last_mail_at", UtcDateTime, nullable=False),
    sa.Column("model_turns", sa.Integer, nullable=False, server_default="0"),
    sa.Column("model_tokens", sa.BigInteger, nullable=False, server_default="0"),
    # Who of the team answers by themselves; none while it is everybody's.
    sa.Column("owner_email", sa.Text),
    # When the words of all its mail were taken out because they were old.
    sa.Column("words_purged_at", UtcDateTime),
    _one_of("status", ConversationStatus),
    sa.Index("ix_conversations_customer_email", "customer_email"),
    sa.Index("ix_conversations_last_mail_at", "last_mail_at"),
    sa.Index(
        "ix_conversations_handed_over",
        "handed_over_at",
        sqlite_where=sa.text("status = 'handed_over'"),
        postgresql_where=sa.text("status = 'handed_over'"),
    ),
)

inbound_mails = sa.Table(
    "inbound_mails",
    metadata,
    sa.Column("mail_id", sa.Text, primary_key=True),
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.Text, sa.ForeignKey("conversations.conversation_id")),
    sa.Column("from_address", sa.Text, nullable=False),
    sa.Column("from_name", sa.Text, nullable=False),
    sa.Column("envelope_from", sa.Text),
    sa.Column("envelope_to", Json, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("message_id", sa.Text),
    # Of several mails under one Message-ID (a forger can reuse one) this counts the earlier ones.
    sa.Column("same_message_id", sa.Integer, nullable=False, server_default="0"),
    sa.Column("in_reply_to", Json, nullable=False),
    sa.Column("mail_references", Json, nullable=False),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("new_text", sa.Text, nullable=False),
    sa.Column("attachments", Json, nullable=False),
    sa.Column("flags", Json, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("no_answer_reason", sa.Text),
    sa.Column("answered_by", sa.Text, sa.ForeignKey("outbound_mails.outbound_id")),
    # The run that was last rung for this mail, and how often the sweep had to ring again.
    sa.Column("run_id", sa.Text),
    sa.Column("rings", sa.Integer, nullable=False, server_default="0"),
    # How many of its runs ended without asking because the model's provider was away.
    sa.Column("put_off", sa.Integer, nullable=False, server_default="0"),
    # The draft that answers it once somebody has sent it.
    sa.Column("draft_id", sa.Text),
    # When a worker had tried each of its photos: see `photo_previews`.
    sa.Column("previews_made_at", UtcDateTime),
    # The mailbox or the domain whose share of MAILS_PER_HOUR it uses; NULL where it uses none.
    sa.Column("rate_limit_key", sa.Text),
    _one_of("status", MailStatus),
    sa.CheckConstraint(
        "(status = 'answered') = (answered_by IS NOT NULL)", name="answered_by_a_mail"
    ),
    sa.CheckConstraint(
        "(status IN ('no_answer', 'parked')) = (no_answer_reason IS NOT NULL)",
        name="reason_for_no_answer",
    ),
    sa.Index("ix_inbound_mails_conversation_id_received_at", "conversation_id", "received_at"),
    sa.Index("ix_inbound_mails_message_id", "message_id"),
    sa.Index("ix_inbound_mails_from_address_received_at", "from_address", "received_at"),
    sa.Index("ix_inbound_mails_rate_limit_key_received_at", "rate_limit_key", "received_at"),
    sa.Index("ix_inbound_mails_received_at", "received_at"),
    sa.Index(
        "ix_inbound_mails_parked",
        "received_at",
        sqlite_where=sa.text("status = 'parked'"),
        postgresql_where=sa.text("status = 'parked'"),
    ),
    sa.Index(
        "ix_inbound_mails_unanswered",
        "received_at",
        sqlite_where=sa.text("status = 'unanswered'"),
        postgresql_where=sa.text("status = 'unanswered'"),
    ),
    sa.Index(
        "ix_inbound_mails_no_answer",
        "received_at",
        sqlite_where=sa.text("status = 'no_answer'"),
        postgresql_where=sa.text("status = 'no_answer'"),
    ),
    sa.Index(
        "ix_inbound_mails_reasons",
        "kind",
        "no_answer_reason",
        sqlite_where=sa.text("status = 'no_answer'"),
        postgresql_where=sa.text("status = 'no_answer'"),
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

# Apart from the mail, so that lists never drag 30 MB along and purging is one delete.
raw_mails = sa.Table(
    "raw_mails",
    metadata,
    sa.Column("mail_id", sa.Text, sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Index("ix_raw_mails_received_at", "received_at"),
)

# A picture of each photo among a mail's files, or why there is none. They go with the raw mail.
photo_previews = sa.Table(
    "photo_previews",
    metadata,
    sa.Column(
        "mail_id",
        sa.Text,
        sa.ForeignKey("raw_mails.mail_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("number", sa.Integer, primary_key=True),  # from 0, among the mail's attachments
    sa.Column("picture", sa.LargeBinary),
    sa.Column("problem", sa.Text),
    sa.Column("made_at", UtcDateTime, nullable=False),
    sa.CheckConstraint("(picture IS NULL) <> (problem IS NULL)", name="picture_or_problem"),
)

outbound_mails = sa.Table(
    "outbound_mails",
    metadata,
    sa.Column("outbound_id", sa.Text, primary_key=True),
    # What this mail is for, once: `reply:<mail>`, `receipt:<refund>`, `approval_request:<approval>:<manager>`.
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.Text, sa.ForeignKey("conversations.conversation_id")),
    # No foreign key: refunds name the mail that asked for them, and that would close a circle.
    sa.Column("refund_id", sa.Text),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("to_address", sa.Text, nullable=False),
    sa.Column("from_address", sa.Text, nullable=False),
    sa.Column("reply_to", sa.Text),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("html", sa.Text),
    sa.Column("message_id", sa.Text, nullable=False, unique=True),
    sa.Column("in_reply_to", sa.Text),
    sa.Column("mail_references", Json, nullable=False),
    sa.Column("auto_submitted", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("next_attempt_at", UtcDateTime),
    sa.Column("sending_at", UtcDateTime),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("provider_id", sa.Text),
    sa.Column("error", sa.Text),
    # Since when SendGrid refuses it without accepting another meanwhile; how often it did so after it had.
    sa.Column("refused_at", UtcDateTime),
    sa.Column("refused_beside", sa.Integer, nullable=False, server_default="0"),
    # Since when it waits for a vendor that is not asked for now.
    sa.Column("put_off_at", UtcDateTime),
    # Why it was sent once more, although the first may have gone out.
    sa.Column("sent_again_why", sa.Text),
    _one_of("status", OutboundStatus),
    sa.Index("ix_outbound_mails_conversation_id_created_at", "conversation_id", "created_at"),
    sa.Index("ix_outbound_mails_refund_id", "refund_id"),
    sa.Index("ix_outbound_mails_to_address_created_at", "to_address", "created_at"),
    sa.Index(
        "ix_outbound_mails_under_way",
        "created_at",
        sqlite_where=sa.text("status IN ('queued', 'sending')"),
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    ),
    sa.Index("ix_outbound_mails_created_at", "created_at"),
    sa.Index(
        "ix_outbound_mails_lost",
        "created_at",
        sqlite_where=sa.text("status IN ('failed', 'unknown', 'undelivered')"),
        postgresql_where=sa.text("status IN ('failed', 'unknown', 'undelivered')"),
    ),
)

delivery_events = sa.Table(
    "delivery_events",
    metadata,
    sa.Column("event_key", sa.Text, primary_key=True),
    sa.Column("outbound_id", sa.Text, sa.ForeignKey("outbound_mails.outbound_id"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("occurred_at", UtcDateTime, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Index("ix_delivery_events_outbound_id", "outbound_id"),
)

refunds = sa.Table(
    "refunds",
    metadata,
    sa.Column("refund_id", sa.Text, primary_key=True),
    # One proposal of the model: the same one again, after a crash or a replay, is the same row.
    sa.Column("proposal_key", sa.Text, nullable=False, unique=True),
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), nullable=False),
    sa.Column(
        "conversation_id",
        sa.Text,
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
    ),
    sa.Column("mail_id", sa.Text, sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    # What of the amount is for carriage, beside the lines.
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    # How much less was asked for than lines and carriage come to: no more was left of the payments.
    sa.Column("short_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    # Whether a second person has to approve it after the first.
    sa.Column("four_eyes", sa.Boolean, nullable=False, server_default=sa.false()),
    # Whether whoever approved it knew that the order was cancelled.
    sa.Column("despite_cancel", sa.Boolean, nullable=False, server_default=sa.false()),
    # Hash of the order's customer, if that is another than asked for it, and its approver knew so.
    sa.Column("approved_for", sa.Text),
    sa.Column("policy_version", sa.Text),
    # The facts and the verdict of the policy, as they were when it decided.
    sa.Column("policy_reasons", Json, nullable=False),
    sa.Column("policy_facts", Json, nullable=False),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("note", sa.Text),
    sa.Column("gateway", sa.Text),
    sa.Column("gateway_reference", sa.Text),
    sa.Column("paid_at", UtcDateTime),
    sa.Column("failure", sa.Text),
    # The run that looks after this refund now; a bell goes there.
    sa.Column("run_id", sa.Text),
    sa.Column("rings", sa.Integer, nullable=False, server_default="0"),
    # The receipt that tells of it, where that tells of several: it stands under the key of another.
    sa.Column("receipt_id", sa.Text),
    _one_of("status", RefundStatus),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("shipping_minor >= 0", name="shipping"),
    sa.CheckConstraint("short_minor >= 0", name="short"),
    sa.CheckConstraint(
        "status <> 'paid' OR (gateway_reference IS NOT NULL AND paid_at IS NOT NULL)",
        name="paid_has_reference",
    ),
    sa.Index("ix_refunds_order_id", "order_id"),
    sa.Index("ix_refunds_conversation_id", "conversation_id"),
    sa.Index("ix_refunds_requested_at", "requested_at"),
    sa.Index("ix_refunds_status_currency_amount_minor", "status", "currency", "amount_minor"),
    sa.Index(
        "ix_refunds_under_way",
        "requested_at",
        sqlite_where=sa.text("status IN ('awaiting_approval', 'approved')"),
        postgresql_where=sa.text("status IN ('awaiting_approval', 'approved')"),
    ),
    sa.Index(
        "ix_refunds_failed",
        "requested_at",
        sqlite_where=sa.text("status = 'failed'"),
        postgresql_where=sa.text("status = 'failed'"),
    ),
)

refund_lines = sa.Table(
    "refund_lines",
    metadata,
    sa.Column("refund_id", sa.Text, sa.ForeignKey("refunds.refund_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.CheckConstraint("quantity >= 1", name="quantity"),
    sa.CheckConstraint("amount_minor >= 0", name="amount"),
)

# One row per original payment that gives money back: the intent, written before the gateway is asked.
refund_payments = sa.Table(
    "refund_payments",
    metadata,
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("refund_id", sa.Text, sa.ForeignKey("refunds.refund_id"), nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # asked, done, refused
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reference", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("intended_at", UtcDateTime, nullable=False),
    sa.Column("done_at", UtcDateTime),
    # The gateway had said "done", and later that the money came back: the customer never got it.
    sa.Column("returned_at", UtcDateTime),
    sa.UniqueConstraint("refund_id", "payment_id"),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.CheckConstraint("state IN ('asked', 'done', 'refused')", name="state"),
    sa.CheckConstraint("(state = 'done') = (reference IS NOT NULL)", name="done_has_reference"),
    sa.Index("ix_refund_payments_payment_id", "payment_id"),
)

approvals = sa.Table(
    "approvals",
    metadata,
    sa.Column("approval_id", sa.Text, primary_key=True),
    sa.Column(
        "refund_id", sa.Text, sa.ForeignKey("refunds.refund_id"), nullable=False, unique=True
    ),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
)

# The primary key is the rule: one decision per approval, the first one stands.
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("approval_id", sa.Text, sa.ForeignKey("approvals.approval_id"), primary_key=True),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("decided_at", UtcDateTime, nullable=False),
    sa.Column("amount_minor", sa.BigInteger),
    sa.Column("note", sa.Text),
    # Whether the customer gets the note, too.
    sa.Column("note_shared", sa.Boolean, nullable=False, server_default=sa.true()),
    # The manager's reply by which it was decided, if not by the page.
    sa.Column("mail_id", sa.Text),
    sa.CheckConstraint("decision IN ('approve', 'reject')", name="decision"),
)

# The second pair of eyes, where the policy asks for one: never those of the first decision.
countersignatures = sa.Table(
    "countersignatures",
    metadata,
    sa.Column("approval_id", sa.Text, sa.ForeignKey("approvals.approval_id"), primary_key=True),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("decided_at", UtcDateTime, nullable=False),
    sa.Column("amount_minor", sa.BigInteger),
    sa.Column("note", sa.Text),
    # Whether the customer gets the note, too.
    sa.Column("note_shared", sa.Boolean, nullable=False, server_default=sa.true()),
    # The manager's reply by which it was decided, if not by the page.
    sa.Column("mail_id", sa.Text),
    sa.CheckConstraint("decision IN ('approve', 'reject')", name="decision"),
)

# Whom a question was put to, and what they have heard since. `skipped_why`: why somebody else is asked.
approval_asks = sa.Table(
    "approval_asks",
    metadata,
    sa.Column("approval_id", sa.Text, sa.ForeignKey("approvals.approval_id"), primary_key=True),
    sa.Column("question", sa.Text, primary_key=True),
    sa.Column("manager_email", sa.Text, primary_key=True),
    # Mailed to that manager only: a reply that comes to it may decide.
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    sa.Column("asked_at", UtcDateTime, nullable=False),
    sa.Column("reminders", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reminded_at", UtcDateTime),
    sa.Column("skipped_at", UtcDateTime),
    sa.Column("skipped_why", sa.Text),
    sa.CheckConstraint("question IN ('approve', 'countersign')", name="question"),
    sa.CheckConstraint("(skipped_at IS NULL) = (skipped_why IS NULL)", name="skipped"),
)

# What a manager wrote in reply beside a decision; never for the customer.
approval_notes = sa.Table(
    "approval_notes",
    metadata,
    sa.Column("mail_id", sa.Text, sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("approval_id", sa.Text, sa.ForeignKey("approvals.approval_id"), nullable=False),
    sa.Column("manager_email", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("written_at", UtcDateTime, nullable=False),
    sa.Index("ix_approval_notes_approval_id", "approval_id"),
)

# Managers whose mailbox said that they are away, or took no mail: others are asked meanwhile.
manager_absences = sa.Table(
    "manager_absences",
    metadata,
    sa.Column("manager_email", sa.Text, primary_key=True),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
)

# Answers of the agent that wait for somebody's click, and what became of them.
drafts = sa.Table(
    "drafts",
    metadata,
    sa.Column("draft_id", sa.Text, primary_key=True),
    sa.Column(
        "conversation_id",
        sa.Text,
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
    ),
    sa.Column("mail_ids", Json, nullable=False),
    sa.Column("topics", Json, nullable=False),
    sa.Column("text", sa.Text, nullable=False),  # as the agent wrote it
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("reminded_at", UtcDateTime),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("outbound_id", sa.Text, sa.ForeignKey("outbound_mails.outbound_id")),
    sa.CheckConstraint(
        "state IN ('waiting', 'sent', 'edited', 'discarded', 'superseded')", name="state"
    ),
    sa.CheckConstraint("(state IN ('sent', 'edited')) = (outbound_id IS NOT NULL)", name="sent"),
    sa.Index("ix_drafts_conversation_id", "conversation_id"),
    sa.Index(
        "ix_drafts_waiting",
        "created_at",
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    ),
)

# Links to log in with, by a hash: who reads the database gets in nowhere.
login_links = sa.Table(
    "login_links",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("next_path", sa.Text, nullable=False),
    sa.Column("asked_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("used_at", UtcDateTime),
    sa.Index("ix_login_links_expires_at", "expires_at"),
)

# Every time that somebody asked for one, whether the address may log in or not.
login_attempts = sa.Table(
    "login_attempts",
    metadata,
    sa.Column(
        "attempt_id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("client_address", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("ix_login_attempts_at", "at"),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("session_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    # When its second factor was right; and until then, encrypted, the secret that its page offers to enrol.
    sa.Column("verified_at", UtcDateTime),
    sa.Column("offered_secret", sa.Text),
    sa.Index("ix_sessions_expires_at", "expires_at"),
)

second_factors = sa.Table(
    "second_factors",
    metadata,
    sa.Column("email", sa.Text, primary_key=True),
    sa.Column("encrypted_secret", sa.Text, nullable=False),
    sa.Column("last_step", sa.BigInteger, nullable=False),
    sa.Column("enrolled_at", UtcDateTime, nullable=False),
)

step_words = sa.Table(
    "step_words",
    metadata,
    sa.Column("words_id", sa.Text, primary_key=True),
    sa.Column(
        "conversation_id",
        sa.Text,
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
    ),
    sa.Column("at", UtcDateTime, nullable=False),
    # Not `Json`: the model is told its own items byte by byte as they were, and JSONB sorts their keys.
    sa.Column("words", sa.JSON(), nullable=False),
    sa.Index("ix_step_words_conversation_id", "conversation_id"),
    sa.Index("ix_step_words_at", "at"),
)

# Every call of the model and what it cost, also of answers that never left.
model_calls = sa.Table(
    "model_calls",
    metadata,
    sa.Column(
        "call_id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column(
        "conversation_id",
        sa.Text,
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
    ),
    sa.Column("run_id", sa.Text),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("cached_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    # By the prices of that moment; none without prices, and from before this was recorded.
    sa.Column("cost_micro_usd", sa.BigInteger),
    sa.Index("ix_model_calls_conversation_id", "conversation_id"),
    sa.Index("ix_model_calls_at", "at"),
)

# What a person has seen to and need not see in the inbox any more, by the id of its row or run.
put_away = sa.Table(
    "put_away",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("put_away_by", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

# Every policy that ever decided, as it was written then.
policy_versions = sa.Table(
    "policy_versions",
    metadata,
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("first_used_at", UtcDateTime, nullable=False),
)

# Money that was given back without us, such as in the gateway's own dashboard.
outside_refunds = sa.Table(
    "outside_refunds",
    metadata,
    sa.Column("reference", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("returned_at", UtcDateTime),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
    sa.Index("ix_outside_refunds_order_id", "order_id"),
    sa.Index("ix_outside_refunds_payment_id", "payment_id"),
)

# What the gateway told us, once per event; `outcome` says what came of it.
gateway_events = sa.Table(
    "gateway_events",
    metadata,
    sa.Column("event_id", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("occurred_at", UtcDateTime, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("body", Json, nullable=False),
    sa.Index("ix_gateway_events_received_at", "received_at"),
)

# Which payments an event speaks of, by all their names: an order that comes later is found by them.
gateway_event_payments = sa.Table(
    "gateway_event_payments",
    metadata,
    sa.Column("payment_id", sa.Text, primary_key=True),
    sa.Column("event_id", sa.Text, sa.ForeignKey("gateway_events.event_id"), primary_key=True),
    sa.Index("ix_gateway_event_payments_event_id", "event_id"),
)

# Discounts given for goodwill: one per order, good for one use.
goodwill_codes = sa.Table(
    "goodwill_codes",
    metadata,
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), nullable=False, unique=True),
    sa.Column(
        "conversation_id",
        sa.Text,
        sa.ForeignKey("conversations.conversation_id"),
        nullable=False,
    ),
    sa.Column("mail_id", sa.Text, sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("percent", sa.Integer, nullable=False),
    sa.Column("policy_version", sa.Text),
    sa.Column("issued_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("used_at", UtcDateTime),
    sa.Column("used_on", sa.Text),
    sa.CheckConstraint("percent BETWEEN 1 AND 100", name="percent"),
    sa.CheckConstraint("(used_at IS NULL) = (used_on IS NULL)", name="used_once"),
    sa.Index("ix_goodwill_codes_conversation_id", "conversation_id"),
)

# The built-in gateway: refunds recorded for settlement elsewhere.
ledger_entries = sa.Table(
    "ledger_entries",
    metadata,
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("reference", sa.Text, nullable=False, unique=True),
    sa.Column("refund_id", sa.Text, nullable=False),
    sa.Column("order_id", sa.Text, nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("recorded_at", UtcDateTime, nullable=False),
    sa.CheckConstraint("amount_minor > 0", name="amount"),
)

# Addresses that mail cannot reach, or that do not want ours: nothing more is sent there.
suppressed_addresses = sa.Table(
    "suppressed_addresses",
    metadata,
    sa.Column("address", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
)

# One row per worker process that ever lived; who was not seen lately has vanished.
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("worker_id", sa.Text, primary_key=True),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("steady_since", UtcDateTime),  # it has signed in without a gap since then
)

# One row per provider that has failed lately, for all workers together: while it is open nobody asks
# that provider, but for one at a time who tries it once `until_at` has come.
breakers = sa.Table(
    "breakers",
    metadata,
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("opened_at", UtcDateTime),
    sa.Column("until_at", UtcDateTime),
    sa.Column("needs_operator", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("why", sa.Text, nullable=False, server_default=""),
    _one_of("provider", Provider),
    sa.CheckConstraint("(opened_at IS NULL) = (until_at IS NULL)", name="open"),
)

# Until when what a provider was asked takes its minute up, in microseconds since 1970, of all workers
# together; `starts_at` is when the last call that was booked may start.
paces = sa.Table(
    "paces",
    metadata,
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("starts_at", sa.BigInteger, nullable=False),
    sa.Column("requests_until", sa.BigInteger, nullable=False),
    sa.Column("tokens_until", sa.BigInteger, nullable=False),
)

# How many rows of a source there were until its mark, or how much of them: what was counted once is not
# counted again, and what is purged later has been counted.
tallies = sa.Table(
    "tallies",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("detail", sa.Text, primary_key=True),
    sa.Column("quantity", sa.Text, primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
)

tally_marks = sa.Table(
    "tally_marks",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("counted_until", UtcDateTime, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column(
        "audit_id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("details", Json, nullable=False),
    sa.Index("ix_audit_subject", "subject"),
    sa.Index("ix_audit_at", "at"),
    sa.Index("ix_audit_actor_at", "actor", "at"),
    sa.Index("ix_audit_action_at", "action", "at"),
)
