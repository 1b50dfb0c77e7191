"""Tables of refunds: approvals, payments, gateway events, discounts, the built-in ledger."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.refunds.offer import OfferStatus
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.refunds.settlement import SettlementState
from mailagent.domain.remedies.remedy import RemedyKind, RemedyStatus
from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import Json, check, one_of, partial_index, table

refunds = table(
    "refunds",
    sa.Column("refund_id", sa.Text, primary_key=True),
    # Identifies one proposal, so that it makes only one row, also after a crash or a replay.
    sa.Column("proposal_key", sa.Text, nullable=False, unique=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    # How much of the amount is for shipping, beside the lines.
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    # How much less was asked for than lines and shipping add up to, because the payments had no more left.
    sa.Column("short_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    # Whether a second person has to approve it after the first.
    sa.Column("four_eyes", sa.Boolean, nullable=False, server_default=sa.false()),
    # Whether the manager approved it knowing that the order was cancelled.
    sa.Column("despite_cancel", sa.Boolean, nullable=False, server_default=sa.false()),
    # The person of the shop who asked for it; NULL for the agent.
    sa.Column("proposed_by", sa.Text),
    # Hash of the order's customer, if another one asked and the manager approved knowing that.
    sa.Column("approved_for", sa.Text),
    sa.Column("policy_version", sa.Text),
    # The policy's facts and reasons when it decided.
    sa.Column("policy_reasons", Json, nullable=False),
    sa.Column("policy_facts", Json, nullable=False),
    sa.Column("requested_at", UtcDateTime, nullable=False, index=True),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("note", sa.Text),
    sa.Column("gateway", sa.Text),
    sa.Column("gateway_reference", sa.Text),
    sa.Column("paid_at", UtcDateTime),
    sa.Column("failure", sa.Text),
    # The refund's current run, which gets its wake-ups.
    sa.Column("run_id", sa.Text),
    sa.Column("wake_ups", sa.Integer, nullable=False, server_default="0"),
    # When its run first met the present problem of its order: see `orders.look_up_problem_at`.
    sa.Column("look_up_problem_met_at", UtcDateTime),
    # The mail that is its receipt, if that was written for another refund and is for several.
    sa.Column("receipt_id", sa.Text),
    # The bonus in percent, if the customer chose store credit; NULL for money.
    sa.Column("credit_bonus", sa.Integer),
    # Whether the customer keeps the items, and accepted part of their price.
    sa.Column("keeps_items", sa.Boolean, nullable=False, server_default=sa.false()),
    one_of("status", RefundStatus),
    check("amount", "amount_minor > 0"),
    check("shipping", "shipping_minor >= 0"),
    check("short", "short_minor >= 0"),
    check("credit_bonus", "credit_bonus BETWEEN 0 AND 100"),
    check(
        "paid_has_reference",
        "status <> 'paid' OR (gateway_reference IS NOT NULL AND paid_at IS NOT NULL)",
    ),
    sa.Index("ix_refunds_conversation_id", "conversation_id"),
    sa.Index("ix_refunds_status_currency_amount_minor", "status", "currency", "amount_minor"),
    partial_index(
        "ix_refunds_under_way", "requested_at", where="status IN ('awaiting_approval', 'approved')"
    ),
    partial_index("ix_refunds_failed", "requested_at", where="status = 'failed'"),
)

refund_lines = table(
    "refund_lines",
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    # How many units a manager approved of those that were asked for; NULL for all.
    sa.Column("approved_quantity", sa.Integer),
    # The amount is what a manager took off an earlier refund of these units, which already holds the units.
    sa.Column("is_rest", sa.Boolean, nullable=False, server_default=sa.false()),
    check("quantity", "quantity >= 1"),
    check("approved", "approved_quantity BETWEEN 0 AND quantity"),
    check("amount", "amount_minor >= 0"),
)

# One row for each original payment that money goes back to. We write it, the intent, before we ask the gateway.
refund_payments = table(
    "refund_payments",
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False, index=True),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # asked, done, refused
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reference", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("intended_at", UtcDateTime, nullable=False),
    # When we began to ask the gateway, while we do not know the outcome of that call.
    sa.Column("asking_since", UtcDateTime),
    # The gateway that has this payment, or may have it. It goes on there if PAYMENT_GATEWAY is changed.
    sa.Column("asked_gateway", sa.Text),
    sa.Column("done_at", UtcDateTime),
    # When the gateway said that the money came back, after it had said "done": the customer never got it.
    sa.Column("returned_at", UtcDateTime),
    sa.UniqueConstraint("refund_id", "payment_id"),
    check("amount", "amount_minor > 0"),
    check("state", "state IN ('asked', 'done', 'refused')"),
    check("done_has_reference", "(state = 'done') = (reference IS NOT NULL)"),
)

approvals = table(
    "approvals",
    sa.Column("approval_id", sa.Text, primary_key=True),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), nullable=False, unique=True),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
)


def _decisions(name: str) -> sa.Table:
    """Return a table of decisions. By its primary key an approval has only one, so the first one counts."""
    return table(
        name,
        sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), primary_key=True),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_at", UtcDateTime, nullable=False),
        sa.Column("amount_minor", sa.BigInteger),
        sa.Column("note", sa.Text),
        # Whether the customer gets the note, too.
        sa.Column("note_shared", sa.Boolean, nullable=False, server_default=sa.false()),
        # The manager's reply by which it was decided, if not by the page.
        sa.Column("mail_id", sa.Text),
        # How many units were approved, by line number, if fewer than were asked for; empty for all.
        sa.Column("quantities", Json, nullable=False),
        # What the manager knew of the order: whether it was cancelled, and the hash of its new customer.
        sa.Column("despite_cancel", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("approved_for", sa.Text),
        # Until then its author may take it back, and it has no effect. NULL: it has an effect at once.
        sa.Column("undo_until", UtcDateTime),
        # With a rejection: the part of the price, in percent, that is offered instead.
        sa.Column("offer_percent", sa.Integer),
        check(
            "offer",
            "offer_percent IS NULL OR decision = 'reject' AND offer_percent BETWEEN 1 AND 99",
        ),
        check("decision", "decision IN ('approve', 'reject')"),
    )


decisions = _decisions("decisions")
# The second manager's decision (`four_eyes`): never of the person who made the first one.
countersignatures = _decisions("countersignatures")

# Which manager was asked what, and the reminders since. `skipped_why`: why we no longer wait for this manager.
approval_requests = table(
    "approval_requests",
    sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), primary_key=True),
    sa.Column("question", sa.Text, primary_key=True),
    sa.Column("manager_email", sa.Text, primary_key=True),
    # Mailed only to that manager. A reply to its address can decide.
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    sa.Column("asked_at", UtcDateTime, nullable=False),
    sa.Column("reminders", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reminded_at", UtcDateTime),
    sa.Column("skipped_at", UtcDateTime),
    sa.Column("skipped_why", sa.Text),
    check("question", "question IN ('approve', 'countersign')"),
    check("skipped", "(skipped_at IS NULL) = (skipped_why IS NULL)"),
)

# Managers' replies that decide nothing. The customer never gets them.
approval_notes = table(
    "approval_notes",
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("approval_id", sa.ForeignKey("approvals.approval_id"), nullable=False, index=True),
    sa.Column("manager_email", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("written_at", UtcDateTime, nullable=False),
)

# Absent managers: an automatic answer came from them, or our mail bounced. We ask others meanwhile.
manager_absences = table(
    "manager_absences",
    sa.Column("manager_email", sa.Text, primary_key=True),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
)

# The text of every policy that ever decided on a refund.
policy_versions = table(
    "policy_versions",
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("first_used_at", UtcDateTime, nullable=False),
)

# External refunds, such as in the gateway's dashboard; and, marked as returned, refunds of ours that the
# gateway could not carry out, and that another one under the same key has replaced.
external_refunds = table(
    "external_refunds",
    sa.Column("reference", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("payment_id", sa.Text, nullable=False, index=True),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("returned_at", UtcDateTime),
    check("amount", "amount_minor > 0"),
)

# The gateway's webhook events, each once. `outcome`: what we did about it.
gateway_events = table(
    "gateway_events",
    sa.Column("event_id", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("occurred_at", UtcDateTime, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False, index=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("body", Json, nullable=False),
)

# All ids of the payments that an event is about. An order that comes later finds the event by them.
gateway_event_payments = table(
    "gateway_event_payments",
    sa.Column("payment_id", sa.Text, primary_key=True),
    sa.Column("event_id", sa.ForeignKey("gateway_events.event_id"), primary_key=True, index=True),
)

# Remedies: what customers asked for beside refunds, such as another address. Most are tasks for people.
remedies = table(
    "remedies",
    sa.Column("remedy_id", sa.Text, primary_key=True),
    # Identifies one request of the model, so that it makes only one row, also after a crash or a replay.
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
    # A list of `item_id`, `name` and `quantity`; empty for the whole order.
    sa.Column("items", Json, nullable=False),
    # The customer's own words, such as the new address.
    sa.Column("wish", sa.Text),
    # The parts of a new address that the shop's system should set, or may have set.
    sa.Column("address", Json),
    sa.Column("reason", sa.Text),
    # Why a manager has to do it; empty if any person of the team may.
    sa.Column("policy_reasons", Json, nullable=False),
    sa.Column("policy_version", sa.Text),
    # The refund that is paid only after it is done.
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), unique=True),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("due_at", UtcDateTime, nullable=False),
    sa.Column("asked_at", UtcDateTime),
    # How to send goods back, as the policy said then.
    sa.Column("instructions", sa.Text),
    sa.Column("reminded_at", UtcDateTime),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("note", sa.Text),
    one_of("kind", RemedyKind),
    one_of("status", RemedyStatus),
    check("decided", "(status IN ('asked', 'task', 'awaiting_goods')) = (decided_at IS NULL)"),
    sa.Index("ix_remedies_status_decided_at", "status", "decided_at"),
    partial_index("ix_remedies_tasks", "requested_at", where="status = 'task'"),
    partial_index("ix_remedies_due", "due_at", where="status = 'task'"),
    partial_index("ix_remedies_asked", "requested_at", where="status = 'asked'"),
)

# Goodwill codes: one for each order, each for one use.
goodwill_codes = table(
    "goodwill_codes",
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("percent", sa.Integer, nullable=False),
    sa.Column("policy_version", sa.Text),
    sa.Column("issued_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("used_at", UtcDateTime),
    sa.Column("used_on", sa.Text),
    check("percent", "percent BETWEEN 1 AND 100"),
    check("used_once", "(used_at IS NULL) = (used_on IS NULL)"),
    sa.Index("ix_goodwill_codes_conversation_id", "conversation_id"),
)

# Offers of part of the price. An accepted offer becomes one refund.
offers = table(
    "offers",
    sa.Column("offer_id", sa.Text, primary_key=True),
    sa.Column("offer_key", sa.Text, nullable=False, unique=True),
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), nullable=False, index=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), nullable=False),
    sa.Column("items", Json, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("percent", sa.Integer, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("offered_by", sa.Text, nullable=False),
    sa.Column("policy_version", sa.Text, nullable=False),
    sa.Column("offered_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("refund_id", sa.ForeignKey("refunds.refund_id"), unique=True),
    # The refund that a manager rejected with this offer; NULL for an offer of the policy.
    sa.Column("instead_of", sa.ForeignKey("refunds.refund_id"), unique=True),
    one_of("status", OfferStatus),
    check("amount", "amount_minor > 0"),
    check("percent", "percent BETWEEN 1 AND 99"),
    check("accepted", "(status = 'accepted') = (refund_id IS NOT NULL)"),
    partial_index("ix_offers_open", "expires_at", where="status = 'open'"),
)

# The ledger: refunds that the shop pays elsewhere.
ledger_entries = table(
    "ledger_entries",
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("reference", sa.Text, nullable=False, unique=True),
    sa.Column("refund_id", sa.Text, nullable=False),
    sa.Column("order_id", sa.Text, nullable=False),
    sa.Column("payment_id", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    # What the customer gets as store credit for the amount; NULL for money.
    sa.Column("credit_minor", sa.BigInteger),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("recorded_at", UtcDateTime, nullable=False),
    check("amount", "amount_minor > 0"),
    check("credit", "credit_minor >= amount_minor"),
)

# Settlements: whether the shop has paid an entry of the ledger. A row for each entry.
ledger_settlements = table(
    "ledger_settlements",
    sa.Column("idempotency_key", sa.ForeignKey("ledger_entries.idempotency_key"), primary_key=True),
    sa.Column("refund_id", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("recorded_at", UtcDateTime, nullable=False),
    sa.Column("due_at", UtcDateTime, nullable=False),
    # Whether the customer was told the date.
    sa.Column("promised", sa.Boolean, nullable=False),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    # The bank's reference, or the code of store credit. Our own reference is in the entry.
    sa.Column("bank_reference", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("reminded_at", UtcDateTime),
    one_of("state", SettlementState),
    check("decided", "(state = 'open') = (decided_at IS NULL)"),
    check("failed_with_a_reason", "(state = 'failed') = (reason IS NOT NULL)"),
    sa.Index("ix_ledger_settlements_state_decided_at", "state", "decided_at"),
    partial_index("ix_ledger_settlements_open", "recorded_at", where="state = 'open'"),
    partial_index(
        "ix_ledger_settlements_overdue", "due_at", where="state = 'open' AND reminded_at IS NULL"
    ),
)
