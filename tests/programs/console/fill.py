"""A shop with much mail, made by the database itself: for measuring the console, and, small, for testing it.

Only PostgreSQL. Everything follows from its number and the day, so two fills of one size on one day are the
same. The newest mail is of today or yesterday, as in a shop that is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

# In every mail, in one of ten, and in one mail only.
COMMON, UNCOMMON, RARE = "order", "kettle", "zanzibar"
REPLAY = "replay_1"  # fifty runs that were replayed together


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are of each kind; the rest follows from these."""

    mails: int = 1_000_000
    conversations: int = 100_000
    approvals: int = 10_000

    @property
    def others(self) -> int:
        """How many things of every other kind wait."""
        return self.approvals // 2


_ID = "lpad({n}::text, 26, '0')"
_DAYS = 289  # from the first mail to today
_AT = f"date_trunc('day', now(), 'UTC') - interval '{_DAYS} days' + {{n}} * interval '{{step}} seconds'"

_STATEMENTS = (
    # Half of the customers have their mail at one provider.
    """
    INSERT INTO conversations (conversation_id, customer_email, subject, status, reply_token,
        confirm_token, team_token, handed_over_reason, handed_over_at, opened_at, last_mail_at,
        progress, snoozed_until, customer_name)
    SELECT 'conversation_' || {id_n}, 'customer' || n % :customers || '@'
            || CASE WHEN n % 2 = 0 THEN 'mail.example' ELSE 'shop' || n % 50 || '.example' END,
        'My order W' || n, CASE WHEN n % :each = 0 THEN 'handed_over' ELSE 'open' END,
        'r' || n, 'c' || n, 't' || n,
        CASE WHEN n % :each = 0 THEN 'the customer asked for a person' END,
        CASE WHEN n % :each = 0 THEN {at_conversation} END, {at_conversation}, {at_conversation},
        CASE WHEN n % :each = 0 THEN CASE WHEN n % (:each * 2) = 0 THEN 'pending' ELSE 'open' END
            WHEN n % 3 = 1 THEN 'closed' ELSE 'pending' END,
        CASE WHEN n % 50 = 7 THEN timestamptz '2100-01-01' END, 'Customer ' || n
    FROM generate_series(1, :conversations) n
    """,
    """
    INSERT INTO conversation_tags (conversation_id, tag, last_mail_at)
    SELECT 'conversation_' || {id_n}, CASE WHEN n % 2 = 0 THEN 'parcel' ELSE 'tag ' || n % 40 END,
        {at_conversation}
    FROM generate_series(1, :conversations) n
    """,
    """
    UPDATE conversations SET owner_email = 'tess@shop.example'
    FROM generate_series(1, :conversations) n
    WHERE n % (:each * 3) = 0 AND conversation_id = 'conversation_' || {id_n}
    """,
    """
    INSERT INTO outbound_mails (outbound_id, dedup_key, conversation_id, purpose, to_address,
        from_address, subject, text, message_id, mail_references, auto_submitted, status, created_at,
        sources)
    SELECT 'outbound_' || {id_n}, 'reply:' || n, 'conversation_' || {id_n},
        CASE WHEN n % (:each * 2) = 0 THEN 'team_reply' ELSE 'reply' END,
        'customer' || n % :customers || '@mail.example', 'support@shop.example', 'Re: My order',
        'Dear customer, your order is on its way.', n || '@shop.example', '[]', 'auto-replied',
        CASE WHEN n % :each = 1 THEN 'undelivered' ELSE 'sent' END, {at_conversation},
        (CASE WHEN n % 2 = 0 THEN '["returns#' || n % 30 || '@1"]' END)::jsonb
    FROM generate_series(1, :conversations) n
    """,
    # Texts are put together of a few thousand sentences with words of all frequencies.
    """
    CREATE TEMPORARY TABLE sentences AS
    SELECT s, string_agg('word' || floor(power((hashtext(s || ':' || w) & 1048575) / 1048576.0, 3)
        * 20000)::int, ' ') || CASE WHEN s % 10 = 0 THEN ' kettle' ELSE '' END AS text
    FROM generate_series(0, 4999) s, generate_series(1, 25) w GROUP BY s
    """,
    "CREATE INDEX ON sentences (s)",
    """
    INSERT INTO inbound_mails (mail_id, dedup_key, conversation_id, from_address, from_name,
        envelope_to, subject, message_id, in_reply_to, mail_references, received_at, body, new_text,
        attachments, flags, identity, kind, status, no_answer_reason, answered_by)
    SELECT 'mail_' || {id_n}, 'd' || n, 'conversation_' || {id_c},
        'customer' || c % :customers || '@'
            || CASE WHEN c % 2 = 0 THEN 'mail.example' ELSE 'shop' || c % 50 || '.example' END,
        'Customer ' || c, '[]', 'My order W' || c, n || '@mail.example', '[]', '[]', {at_mail},
        text, text, '[]', '[]', 'dkim', 'customer', status,
        CASE WHEN status = 'throttled' THEN 'too many mails' END,
        CASE WHEN status = 'answered' THEN 'outbound_' || {id_c} END
    FROM (
        SELECT n, 1 + n % :conversations AS c,
            'Hello, about my order: ' || one.text || '. ' || two.text
                || CASE WHEN n = :mails / 3 THEN ' zanzibar' ELSE '' END || ' Thank you.' AS text,
            CASE WHEN n % (:mails / :others) = 0 THEN 'throttled'
                WHEN n > :mails - 100 THEN 'unanswered' ELSE 'answered' END AS status
        FROM generate_series(1, :mails) n
        JOIN sentences one ON one.s = n % 5000 JOIN sentences two ON two.s = (n / 7) % 5000
    ) made
    """,
    """
    INSERT INTO orders (order_id, customer_email, customer_name, currency, placed_at, status,
        paid_minor, updated_at)
    SELECT 'W' || n, 'customer' || n % :customers || '@'
            || CASE WHEN n % 2 = 0 THEN 'mail.example' ELSE 'shop' || n % 50 || '.example' END,
        'Customer ' || n, 'USD', {at_conversation}, 'delivered', 100000, {at_conversation}
    FROM generate_series(1, :refunds) n
    """,
    """
    INSERT INTO order_lines (order_id, line_no, item_id, name, quantity, unit_price_minor)
    SELECT 'W' || n, line, line::text, 'Kettle ' || line, 2, 10000
    FROM generate_series(1, :refunds) n, generate_series(1, 5) line
    """,
    """
    INSERT INTO order_payments (order_id, payment_id, position, method, amount_minor)
    SELECT 'W' || n, 'pay_W' || n, 0, 'card', 100000 FROM generate_series(1, :refunds) n
    """,
    """
    INSERT INTO refunds (refund_id, proposal_key, order_id, conversation_id, mail_id, amount_minor,
        currency, reason, status, policy_reasons, policy_facts, requested_at, gateway_reference, paid_at)
    SELECT 'refund_' || {id_n}, 'p' || n, 'W' || n, 'conversation_' || {id_n}, 'mail_' || {id_n},
        1000 + n % 9000, 'USD', 'damaged', status, '[]', '{{}}', {at_conversation},
        CASE WHEN status = 'paid' THEN 'ref' || n END,
        CASE WHEN status = 'paid' THEN {at_conversation} END
    FROM (
        SELECT n, CASE WHEN n % 5 = 0 THEN 'awaiting_approval' WHEN n % 50 = 1 THEN 'failed'
            WHEN n % 50 = 2 THEN 'expired' ELSE 'paid' END AS status
        FROM generate_series(1, :refunds) n
    ) made
    """,
    """
    INSERT INTO refund_lines (refund_id, line_no, item_id, quantity, amount_minor)
    SELECT refund_id, 1, '1', 1, amount_minor FROM refunds
    """,
    # Every fourth refund that the ledger paid still waits for the shop.
    """
    INSERT INTO ledger_entries (idempotency_key, reference, refund_id, order_id, payment_id,
        amount_minor, currency, recorded_at)
    SELECT refund_id, 'ledger_' || refund_id, refund_id, order_id, 'pay_1', amount_minor, currency, paid_at
    FROM refunds WHERE status = 'paid'
    """,
    """
    INSERT INTO ledger_settlements (idempotency_key, refund_id, state, recorded_at, due_at, promised,
        decided_by, decided_at)
    SELECT refund_id, refund_id, CASE WHEN waits THEN 'open' ELSE 'settled' END, recorded_at,
        recorded_at + interval '7 days', true, CASE WHEN NOT waits THEN 'mona@shop.example' END,
        CASE WHEN NOT waits THEN recorded_at END
    FROM (SELECT *, right(refund_id, 2)::int % 4 = 1 AS waits FROM ledger_entries) entries
    """,
    # Every tenth still waits for somebody; of what was done, every twentieth was sent again.
    """
    INSERT INTO remedies (remedy_id, proposal_key, kind, status, order_id, conversation_id, mail_id,
        items, reason, policy_reasons, requested_at, due_at, decided_by, decided_at)
    SELECT 'remedy_' || {id_n}, 'r' || n,
        CASE WHEN status = 'done' AND n % 20 <> 3 THEN 'return' ELSE 'exchange' END, status,
        'W' || n, 'conversation_' || {id_n},
        'mail_' || {id_n}, '[{{"item_id": "1", "name": "Kettle", "quantity": 1}}]', 'damaged', '[]',
        {at_conversation}, {at_conversation} + interval '3 days',
        CASE WHEN status = 'done' THEN 'tess@shop.example' END,
        CASE WHEN status = 'done' THEN {at_conversation} END
    FROM (
        SELECT n, CASE WHEN n % 30 = 0 THEN 'task' WHEN n % 30 = 1 THEN 'awaiting_goods'
            WHEN n % 30 = 2 THEN 'asked' ELSE 'done' END AS status
        FROM generate_series(1, :refunds) n
    ) made
    """,
    # What a shadow says to a tenth of the mail of two weeks before the page is opened.
    """
    INSERT INTO comparisons (source, mail_id, conversation_id, at, model, differs, draft, past, now,
        error, tokens, cost_micro_usd, milliseconds)
    SELECT 'shadow', 'mail_' || {id_n}, 'conversation_' || {id_n}, now() - n * interval '3 minutes',
        'small', CASE WHEN n % 9 = 0 THEN 'acts' WHEN n % 9 = 1 THEN 'facts' ELSE 'nothing' END,
        CASE WHEN n % 50 = 0 THEN 'edited' END, side, side, '', 1000, 30000, 1500
    FROM generate_series(1, :others) n,
        (VALUES ('{{"acts": ["propose_refund W1"], "parts": ["thanks"]}}'::jsonb)) AS sides (side)
    """,
    """
    INSERT INTO model_calls (conversation_id, at, model, outcome, input_tokens, cached_tokens,
        output_tokens, cost_micro_usd, prompt_version, tools_version)
    SELECT 'conversation_' || {id_n}, now() - n * interval '14 days' / :conversations, 'small', 'done',
        2000, 1000, 100, 900, 'p' || n % 3, 't1'
    FROM generate_series(1, :conversations) n
    """,
    """
    INSERT INTO conversation_notes (note_id, conversation_id, author_email, text, written_at)
    SELECT 'note_' || {id_n}, 'conversation_' || {id_n}, 'tess@shop.example', 'Called twice.',
        {at_conversation}
    FROM generate_series(1, :conversations) n
    """,
    """
    INSERT INTO outgoing_files (outbound_id, number, name, size_bytes, content)
    SELECT 'outbound_' || {id_n}, 0, 'manual.pdf', 8, '%PDF-1.7'
    FROM generate_series(1, :conversations) n
    """,
    """
    INSERT INTO votes (mail_id, helped, at)
    SELECT 'mail_' || {id_n}, n % 7 <> 0, {at_mail} FROM generate_series(1, :conversations) n
    """,
    """
    INSERT INTO saved_replies (saved_reply_id, name, text, updated_by, updated_at)
    SELECT 'reply_' || {id_n}, 'Reply ' || n, 'Dear customer, …', 'tess@shop.example',
        timestamptz '2026-01-01 00:00Z'
    FROM generate_series(1, 200) n
    """,
    # A year, with as many labels a day as a large shop has.
    """
    INSERT INTO daily_figures (day, figure, label, value)
    SELECT date_trunc('day', now(), 'UTC') - interval '365 days' + n * interval '1 day', figure,
        label, 1 + n % 400
    FROM generate_series(0, 364) n, (
        SELECT 'mails' AS figure, unnest(ARRAY['agent', 'people', 'waiting', 'none']) AS label
        UNION ALL SELECT unnest(ARRAY['cost', 'questions']), ''
        UNION ALL SELECT 'votes', unnest(ARRAY['yes', 'no'])
        UNION ALL SELECT 'approvals', unnest(ARRAY['approve', 'reject', 'expired'])
        UNION ALL SELECT unnest(ARRAY['refunds', 'amounts']),
            unnest(ARRAY['paid USD', 'failed USD'])
        UNION ALL SELECT unnest(ARRAY['answer_seconds', 'decision_seconds']), (s * 60)::text
            FROM generate_series(1, 60) s
    ) kinds
    """,
    """
    INSERT INTO approvals (approval_id, refund_id, requested_at, expires_at)
    SELECT 'approval_' || {id_n}, 'refund_' || {id_n}, {at_conversation}, now() + interval '7 days'
    FROM generate_series(5, :refunds, 5) n
    """,
    """
    INSERT INTO approval_requests (approval_id, question, manager_email, reply_token, asked_at)
    SELECT 'approval_' || {id_n}, 'approve', email, email || n, {at_conversation}
    FROM generate_series(5, :refunds, 5) n,
        (VALUES ('mona@shop.example', 1), ('max@shop.example', 2)) AS managers (email, every)
    WHERE n % (every * 10) = 0 OR every = 1
    """,
    """
    INSERT INTO drafts (draft_id, conversation_id, mail_ids, topics, text, state, created_at)
    SELECT 'draft_' || {id_n}, 'conversation_' || {id_n}, '[]', '[]', 'Dear customer, …', 'waiting',
        {at_conversation}
    FROM generate_series(1, :others) n
    """,
    """
    INSERT INTO audit (at, actor, action, subject, details)
    SELECT {at_mail}, CASE WHEN n % 10000 = 0 THEN 'tess@shop.example' ELSE 'agent' END,
        CASE WHEN n % 10000 = 0 THEN 'dismissed' ELSE 'mail answered' END, 'mail_' || {id_n}, '{{}}'
    FROM generate_series(1, :mails) n
    """,
    # One in a hundred failed, a third of these at the gateway, and never ran again.
    """
    INSERT INTO dbos.workflow_status (workflow_uuid, status, name, created_at, updated_at,
        completed_at, inputs, attributes, error, serialization, recovery_attempts)
    SELECT 'conversation-' || {id_n}, CASE WHEN fails THEN 'ERROR' ELSE 'SUCCESS' END,
        'conversation', ms, ms, ms,
        '{{"positionalArgs": ["conversation_' || {id_n} || '"], "namedArgs": {{}}}}',
        jsonb_build_object('subject', 'conversation_' || {id_n}, 'conversation', 'conversation_' || {id_n},
            'order', 'W' || n, 'customer_hash', left(md5(n::text), 32)),
        CASE WHEN fails THEN json_build_object('name', 'NeedsOperatorError', 'message',
            CASE WHEN n % 3 = 0 THEN 'Stripe refused our key' ELSE 'the model refused our key' END)
        END, 'portable_json', 1
    FROM (SELECT n, n % (:each * 5) = 2 AS fails,
        (extract(epoch FROM now() - n * interval '25 days' / :conversations) * 1000)::bigint AS ms
        FROM generate_series(1, :conversations) n) made
    """,
    """
    INSERT INTO dbos.operation_outputs (workflow_uuid, function_id, function_name, output, error,
        started_at_epoch_ms, completed_at_epoch_ms, serialization)
    SELECT workflow_uuid, step, CASE step WHEN 1 THEN 'take_batch' ELSE 'ask_model' END,
        CASE WHEN step = 1 OR error IS NULL THEN '{{}}' END, CASE WHEN step = 2 THEN error END,
        created_at, updated_at, serialization
    FROM dbos.workflow_status, generate_series(1, 2) step
    """,
    """
    INSERT INTO audit (at, actor, action, subject, details)
    SELECT now(), 'olga@shop.example', 'runs replayed together', 'replay_1',
        jsonb_build_object('runs', jsonb_agg('conversation-' || {id_n}))
    FROM generate_series(1, 50) n
    """,
    """
    INSERT INTO dismissals (subject, dismissed_by, at)
    SELECT outbound_id, 'tess@shop.example', created_at FROM outbound_mails
    WHERE status = 'undelivered' AND hashtext(outbound_id) % 2 = 0
    """,
)


def fill(engine: sa.Engine, size: Size, without: Sequence[str] = ()) -> None:
    """Fill a migrated database of PostgreSQL; a million mails take some minutes.

    `without`: words; statements with one of them are left out.
    """
    values = {
        "mails": size.mails,
        "conversations": size.conversations,
        "customers": max(size.conversations // 2, 1),
        "others": size.others,
        "each": max(size.conversations // size.others, 4),
        "refunds": size.approvals * 5,
    }
    step_of_mail = max(_DAYS * 86_400 // size.mails, 1)
    names = {
        "id_n": _ID.format(n="n"),
        "id_c": _ID.format(n="c"),
        "at_mail": _AT.format(n="n", step=step_of_mail),
        "at_conversation": _AT.format(n="n", step=step_of_mail * size.mails // size.conversations),
    }
    with engine.begin() as connection:
        for statement in _STATEMENTS:
            if any(word in statement for word in without):
                continue
            connection.execute(sa.text(statement.format(**names)), values)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
