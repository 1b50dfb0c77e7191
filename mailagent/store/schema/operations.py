"""Tables of operations: logins, model calls, workers, circuit breakers, counters, the audit log."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import Json, RowNumber, check, table

# Links to log in with, by a hash: who reads the database gets in nowhere.
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
    # When its second factor was right; and until then, encrypted, the secret that its page offers to enrol.
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
    # Not `Json`: the model is told its own items byte by byte as they were, and JSONB sorts their keys.
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
    # Which part differs: `acts`, `facts`, `nothing`, or `unknown` without an answer.
    sa.Column("differs", sa.Text, nullable=False),
    # What a person did with the draft: `edited` or `discarded`.
    sa.Column("draft", sa.Text),
    # Each a list of `acts` and of the `parts` of the reply.
    sa.Column("past", Json, nullable=False),
    sa.Column("now", Json, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("cost_micro_usd", sa.BigInteger, nullable=False),
    sa.Column("milliseconds", sa.Integer, nullable=False),
    sa.Index("ix_comparisons_conversation_id", "conversation_id"),
)

# Every call of the model and what it cost, also of answers that never left.
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
    # By the prices of that moment; none without prices.
    sa.Column("cost_micro_usd", sa.BigInteger),
    # Hashes of the instructions and of the tools that were offered; none for the second reader.
    sa.Column("prompt_version", sa.Text),
    sa.Column("tools_version", sa.Text),
    sa.Index("ix_model_calls_conversation_id", "conversation_id"),
)

# What a person has seen to and need not see in the inbox any more, by the id of its row or run.
dismissals = table(
    "dismissals",
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("dismissed_by", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

# One row per worker process. A worker that was not seen lately is dead.
workers = table(
    "workers",
    sa.Column("worker_id", sa.Text, primary_key=True),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    # The worker has renewed its lease without a gap since then.
    sa.Column("steady_since", UtcDateTime, nullable=False),
)

# One row per provider that has failed lately, for all workers together. While it is open the provider is not
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

# Until when the booked calls of all workers use up a provider's limits, in microseconds since 1970.
rate_limits = table(
    "rate_limits",
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("requests_until", sa.BigInteger, nullable=False),
    sa.Column("tokens_until", sa.BigInteger, nullable=False),
)

# How many rows of a source there were until its mark, or how much of them: what was counted once is not
# counted again, and what is purged later has been counted.
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

# What a day came to, for the report: numbers by a figure and a label. Counted again while a day may change.
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
