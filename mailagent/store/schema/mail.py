"""Tables of mail: conversations, inbound and outbound mail, drafts, suppressions."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus, Progress
from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import Json, check, one_of, partial_index, table

conversations = table(
    "conversations",
    sa.Column("conversation_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False, index=True),
    sa.Column("customer_name", sa.Text, nullable=False, server_default=""),
    sa.Column("subject", sa.Text, nullable=False),
    # The language of our mails to the customer; NULL while unknown.
    sa.Column("language", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reply_token", sa.Text, nullable=False, unique=True),
    # Mailed only to the customer's address, so that an answer with its code proves the mailbox.
    sa.Column("confirm_token", sa.Text, nullable=False, unique=True),
    # Mailed only to the team. The team's mails to this address go to the customer.
    sa.Column("team_token", sa.Text, nullable=False, unique=True),
    sa.Column("handed_over_reason", sa.Text),
    sa.Column("handed_over_at", UtcDateTime),
    sa.Column("opened_at", UtcDateTime, nullable=False),
    sa.Column("last_mail_at", UtcDateTime, nullable=False, index=True),
    # The person of the shop who answers it; NULL while it has no owner.
    sa.Column("owner_email", sa.Text),
    # When retention deleted the texts of all its mail.
    sa.Column("content_purged_at", UtcDateTime),
    sa.Column("progress", sa.Text, nullable=False, server_default=Progress.OPEN.value),
    sa.Column("snoozed_until", UtcDateTime),
    one_of("status", ConversationStatus),
    one_of("progress", Progress),
    sa.Index(
        "ix_conversations_handed_over_reason_handed_over_at", "handed_over_reason", "handed_over_at"
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

conversation_tags = table(
    "conversation_tags",
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), primary_key=True),
    sa.Column("tag", sa.Text, primary_key=True),
    # A copy of the conversation's column, so that the list of a tag has an index.
    sa.Column("last_mail_at", UtcDateTime, nullable=False),
    sa.Index("ix_conversation_tags_tag_last_mail_at", "tag", "last_mail_at"),
)

# Internal notes of people of the shop. They are never mailed.
conversation_notes = table(
    "conversation_notes",
    sa.Column("note_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("author_email", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("written_at", UtcDateTime, nullable=False),
    sa.Index("ix_conversation_notes_conversation_id_written_at", "conversation_id", "written_at"),
)

inbound_mails = table(
    "inbound_mails",
    sa.Column("mail_id", sa.Text, primary_key=True),
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id")),
    sa.Column("from_address", sa.Text, nullable=False),
    sa.Column("from_name", sa.Text, nullable=False),
    sa.Column("envelope_from", sa.Text),
    sa.Column("envelope_to", Json, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("message_id", sa.Text, index=True),
    # How many earlier mails have the same Message-ID (a forger can reuse one).
    sa.Column("same_message_id", sa.Integer, nullable=False, server_default="0"),
    sa.Column("in_reply_to", Json, nullable=False),
    sa.Column("mail_references", Json, nullable=False),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("received_at", UtcDateTime, nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("new_text", sa.Text, nullable=False),
    sa.Column("attachments", Json, nullable=False),
    sa.Column("flags", Json, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("no_answer_reason", sa.Text),
    sa.Column("answered_by", sa.ForeignKey("outbound_mails.outbound_id")),
    # The run that was last enqueued for this mail, and how often the sweep enqueued one again.
    sa.Column("run_id", sa.Text),
    sa.Column("wake_ups", sa.Integer, nullable=False, server_default="0"),
    # How many of its runs ended because the model's provider, or the order source, was unavailable.
    sa.Column("put_off", sa.Integer, nullable=False, server_default="0"),
    # The draft that will answer it, if a person sends it.
    sa.Column("draft_id", sa.Text),
    # When a worker was done with all its photos: see `photo_previews`.
    sa.Column("previews_made_at", UtcDateTime),
    # The mailbox or domain whose share of MAILS_PER_HOUR it uses; NULL if it uses none.
    sa.Column("rate_limit_key", sa.Text),
    one_of("status", MailStatus),
    check("answered_by_a_mail", "(status = 'answered') = (answered_by IS NOT NULL)"),
    check(
        "reason_for_no_answer",
        "(status IN ('no_answer', 'throttled')) = (no_answer_reason IS NOT NULL)",
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
    partial_index(
        "ix_inbound_mails_without_previews",
        "received_at",
        where="previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'",
        postgresql="previews_made_at IS NULL AND kind = 'customer' AND attachments <> '[]'::jsonb",
    ),
)

# In a table of their own, so that queries of mails do not read up to 30 MB, and purging deletes rows.
raw_mails = table(
    "raw_mails",
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False, index=True),
)

# A preview of each photo among a mail's files, or why there is none. They are deleted with the raw mail.
photo_previews = table(
    "photo_previews",
    sa.Column("mail_id", sa.ForeignKey("raw_mails.mail_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),  # from 0, among the mail's attachments
    sa.Column("picture", sa.LargeBinary),
    sa.Column("problem", sa.Text),
    sa.Column("made_at", UtcDateTime, nullable=False),
    check("picture_or_problem", "(picture IS NULL) <> (problem IS NULL)"),
)

outbound_mails = table(
    "outbound_mails",
    sa.Column("outbound_id", sa.Text, primary_key=True),
    # What the mail is for, so that we write it only once: `reply:<mail>`, `outcome:<refund>`,
    # `approval_request:<approval>:<manager>`.
    sa.Column("dedup_key", sa.Text, nullable=False, unique=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id")),
    # No foreign key, because the tables would refer to each other in a circle.
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
    sa.Column("mail_references", Json, nullable=False),
    sa.Column("auto_submitted", sa.Text, nullable=False),
    # The passages of the shop's knowledge that it quotes: `file/heading@version`.
    sa.Column("sources", Json),
    # JSON to write it again from, if it is sent late; NULL once it may have been sent.
    sa.Column("written_from", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created_at", UtcDateTime, nullable=False, index=True),
    sa.Column("next_attempt_at", UtcDateTime),
    sa.Column("sending_at", UtcDateTime),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("provider_id", sa.Text),
    sa.Column("error", sa.Text),
    # When the current series of refusals began, and how many series there were before: see `note_refusal`.
    sa.Column("refused_at", UtcDateTime),
    sa.Column("refused_beside", sa.Integer, nullable=False, server_default="0"),
    # Since when it waits because the mail provider is not called for now.
    sa.Column("put_off_at", UtcDateTime),
    # Why it was sent again, although it may have been sent before.
    sa.Column("sent_again_why", sa.Text),
    one_of("status", OutboundStatus),
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

# The files of our mails. They are deleted with the mail's text.
outgoing_files = table(
    "outgoing_files",
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# Customers' votes: one for each answer, by the newest mail that it answers.
votes = table(
    "votes",
    sa.Column("mail_id", sa.ForeignKey("inbound_mails.mail_id"), primary_key=True),
    sa.Column("helped", sa.Boolean, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
)

delivery_events = table(
    "delivery_events",
    sa.Column("event_key", sa.Text, primary_key=True),
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("occurred_at", UtcDateTime, nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Index("ix_delivery_events_outbound_id", "outbound_id"),
)

# Suppressions: addresses that we do not write to.
suppressed_addresses = table(
    "suppressed_addresses",
    sa.Column("address", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
)

# Answers of the agent that a person sends, edits or discards.
drafts = table(
    "drafts",
    sa.Column("draft_id", sa.Text, primary_key=True),
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), nullable=False),
    sa.Column("mail_ids", Json, nullable=False),
    sa.Column("topics", Json, nullable=False),
    sa.Column("text", sa.Text, nullable=False),  # the agent's, before any edit
    sa.Column("composition", sa.Text),  # the phrases, facts and words that it is made of, as JSON
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("reminded_at", UtcDateTime),
    sa.Column("decided_by", sa.Text),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("outbound_id", sa.ForeignKey("outbound_mails.outbound_id")),
    check("state", "state IN ('waiting', 'sent', 'edited', 'discarded', 'superseded')"),
    check("sent", "(state IN ('sent', 'edited')) = (outbound_id IS NOT NULL)"),
    sa.Index("ix_drafts_conversation_id", "conversation_id"),
    partial_index("ix_drafts_waiting", "created_at", where="state = 'waiting'"),
)

# Texts of the shop that people insert into answers.
saved_replies = table(
    "saved_replies",
    sa.Column("saved_reply_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("updated_by", sa.Text, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
)
