"""Tables of operations: logins, model calls, workers, circuit breakers, counters, the audit log."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import Json, RowNumber, check, table

# Login links. We store only hashes, so that a copy of the database does not let its reader log in.
login_links = table(
    "login_links",
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("next_path", sa.Text, nullable=False),
    sa.Column("asked_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False, index=True),
    sa.Column("used_at", UtcDateTime),
)

# Every request for a login link, whether the address may log in or not.
login_attempts = table(
    "login_attempts",
    sa.Column("attempt_id", RowNumber, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("client_address", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
)

sessions = table(
    "sessions",
    sa.Column("session_hash", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False, index=True),
    sa.Column("ended_at", UtcDateTime),
    # When the second factor was right; and until then the encrypted secret that the page offers to enrol.
    sa.Column("verified_at", UtcDateTime),
    sa.Column("offered_secret", sa.Text),
)

second_factors = table(
    "second_factors",
    sa.Column("email", sa.Text, primary_key=True),
    sa.Column("encrypted_secret", sa.Text, nullable=False),
    sa.Column("last_step", sa.BigInteger, nullable=False),
    sa.Column("enrolled_at", UtcDateTime, nullable=False),
)

step_texts = table(
    "step_texts",
    sa.Column("text_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    # Not `Json`: the model must get its own items back byte by byte, and JSONB sorts keys.
    sa.Column("words", sa.JSON(), nullable=False),
    sa.Index("ix_step_texts_conversation_id", "conversation_id"),
)

# What another configuration would have done about an answered mail: of the backtest, or of the shadow.
comparisons = table(
    "comparisons",
    sa.Column("source", sa.Text, primary_key=True),
    # The newest of the mails that were answered together.
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    # What differs: see `comparisons.Differs`.
    sa.Column("differs", sa.Text, nullable=False),
    # What a person did with the draft: `edited` or `discarded`.
    sa.Column("draft", sa.Text),
    # Two columns of the same form: lists of `acts` and of the `parts` of the reply.
    sa.Column("past", Json, nullable=False),
    sa.Column("now", Json, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("cost_micro_usd", sa.BigInteger, nullable=False),
    sa.Column("milliseconds", sa.Integer, nullable=False),
    sa.Index("ix_comparisons_conversation_id", "conversation_id"),
)

# Every model call and its cost, also of answers that were never sent.
model_calls = table(
    "model_calls",
    sa.Column("call_id", RowNumber, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("cached_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    # By the prices at the time of the call, in millionths of a US dollar; NULL without prices.
    sa.Column("cost_micro_usd", sa.BigInteger),
    # Hashes of the instructions and of the offered tools; NULL for calls of the second model that reads
    # replies.
    sa.Column("prompt_version", sa.Text),
    sa.Column("tools_version", sa.Text),
    sa.Index("ix_model_calls_conversation_id", "conversation_id"),
)

# Rows and runs that a person took out of the inbox, by their id.
dismissals = table(
    "dismissals",
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("dismissed_by", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

# One row for each worker process. A worker that has not renewed its lease is dead.
workers = table(
    "workers",
    sa.Column("worker_id", sa.Text, primary_key=True),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    # Since when the worker has renewed its lease without a gap.
    sa.Column("steady_since", UtcDateTime, nullable=False),
)

# One row for each provider that has failed lately, shared by all workers. While it is open, the provider is not
# called, except by one probe at a time from `until_at` on.
breakers = table(
    "breakers",
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("opened_at", UtcDateTime),
    sa.Column("until_at", UtcDateTime),
    sa.Column("needs_operator", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("why", sa.Text, nullable=False, server_default=""),
    check("open", "(opened_at IS NULL) = (until_at IS NULL)"),
)

# Until when the reserved calls of all workers use up a provider's limits, in microseconds since 1970.
rate_limits = table(
    "rate_limits",
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("requests_until", sa.BigInteger, nullable=False),
    sa.Column("tokens_until", sa.BigInteger, nullable=False),
)

# Stored totals of a source's rows up to a mark in time. Rows before the mark are not counted again, so they may
# be purged.
counters = table(
    "counters",
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("detail", sa.Text, primary_key=True),
    sa.Column("quantity", sa.Text, primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
)

counter_marks = table(
    "counter_marks",
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("counted_until", UtcDateTime, nullable=False),
)

# The figures of each day for the report: numbers by figure and label. A day is counted again while it may
# change.
daily_figures = table(
    "daily_figures",
    sa.Column("day", UtcDateTime, primary_key=True),
    sa.Column("figure", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

audit = table(
    "audit",
    sa.Column("audit_id", RowNumber, primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("details", Json, nullable=False),
    sa.Index("ix_audit_actor_at", "actor", "at"),
    sa.Index("ix_audit_action_at", "action", "at"),
)
