"""People: who was asked to decide and who is away, drafts, logins and sessions, what was put away, and
indexes for what people look for.

Only adds: code from before this runs on it unchanged, as long as draft mode is off. On PostgreSQL the
indexes of large tables are built without stopping mail.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _upgrade_postgresql()
    else:
        for statement in (*COLUMNS, *TABLES, *WORDS_MAY_GO_SQLITE, *INDEXES):
            op.execute(_typed(statement, "DATETIME", "JSON", "INTEGER"))


def _upgrade_postgresql() -> None:
    # Each by itself: who locks two tables that mail goes through can meet mail that locks them the other
    # way round. So each must bear to be run again.
    with op.get_context().autocommit_block():
        for statement in (*COLUMNS, *TABLES):
            typed = _typed(statement, "TIMESTAMP WITH TIME ZONE", "JSONB", "BIGSERIAL")
            op.execute(_repeatable(typed))
        for statements in WORDS_MAY_GO_POSTGRESQL:
            op.execute(statements)
        for index in (*INDEXES, *WORDS):
            name = index.split()[2]
            # One that was left half-built by a migration that died is of no use and in the way.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            op.execute(index.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))


def _typed(statement: str, moment: str, json: str, number: str) -> str:
    named = {"MOMENT": moment, "JSONTYPE": json, "NUMBER": number}
    for name, kind in named.items():
        statement = statement.replace(name, kind)
    return statement


def downgrade() -> None:
    raise RuntimeError("who decided and what was written stays on record")


def _repeatable(statement: str) -> str:
    """Let a statement pass that was done before a migration died."""
    for words in ("ADD COLUMN", "CREATE TABLE", "CREATE INDEX"):
        statement = statement.replace(f"{words} ", f"{words} IF NOT EXISTS ", 1)
    return statement


COLUMNS = (
    # Whether a manager's note is for the customer; all that were written before were.
    "ALTER TABLE decisions ADD COLUMN note_shared BOOLEAN NOT NULL DEFAULT true",
    "ALTER TABLE countersignatures ADD COLUMN note_shared BOOLEAN NOT NULL DEFAULT true",
    # The reply by which it was decided, if not by the page.
    "ALTER TABLE decisions ADD COLUMN mail_id TEXT",
    "ALTER TABLE countersignatures ADD COLUMN mail_id TEXT",
    "ALTER TABLE conversations ADD COLUMN owner_email TEXT",
    "ALTER TABLE inbound_mails ADD COLUMN draft_id TEXT",
)

TABLES = (
    """
    CREATE TABLE approval_asks (
        approval_id TEXT NOT NULL
            CONSTRAINT fk_approval_asks_approval_id REFERENCES approvals (approval_id),
        question TEXT NOT NULL
            CONSTRAINT ck_approval_asks_question CHECK (question IN ('approve', 'countersign')),
        manager_email TEXT NOT NULL,
        reply_token TEXT NOT NULL,
        asked_at MOMENT NOT NULL,
        reminders INTEGER NOT NULL DEFAULT 0,
        reminded_at MOMENT,
        skipped_at MOMENT,
        skipped_why TEXT,
        CONSTRAINT pk_approval_asks PRIMARY KEY (approval_id, question, manager_email),
        CONSTRAINT uq_approval_asks_reply_token UNIQUE (reply_token),
        CONSTRAINT ck_approval_asks_skipped CHECK ((skipped_at IS NULL) = (skipped_why IS NULL))
    )
    """,
    """
    CREATE TABLE approval_notes (
        mail_id TEXT NOT NULL CONSTRAINT pk_approval_notes PRIMARY KEY
            CONSTRAINT fk_approval_notes_mail_id REFERENCES inbound_mails (mail_id),
        approval_id TEXT NOT NULL
            CONSTRAINT fk_approval_notes_approval_id REFERENCES approvals (approval_id),
        manager_email TEXT NOT NULL,
        text TEXT NOT NULL,
        written_at MOMENT NOT NULL
    )
    """,
    "CREATE INDEX ix_approval_notes_approval_id ON approval_notes (approval_id)",
    """
    CREATE TABLE manager_absences (
        manager_email TEXT NOT NULL CONSTRAINT pk_manager_absences PRIMARY KEY,
        why TEXT NOT NULL,
        since MOMENT NOT NULL,
        until MOMENT NOT NULL
    )
    """,
    """
    CREATE TABLE drafts (
        draft_id TEXT NOT NULL CONSTRAINT pk_drafts PRIMARY KEY,
        conversation_id TEXT NOT NULL
            CONSTRAINT fk_drafts_conversation_id REFERENCES conversations (conversation_id),
        mail_ids JSONTYPE NOT NULL,
        topics JSONTYPE NOT NULL,
        text TEXT NOT NULL,
        state TEXT NOT NULL CONSTRAINT ck_drafts_state
            CHECK (state IN ('waiting', 'sent', 'edited', 'discarded', 'superseded')),
        created_at MOMENT NOT NULL,
        reminded_at MOMENT,
        decided_by TEXT,
        decided_at MOMENT,
        outbound_id TEXT
            CONSTRAINT fk_drafts_outbound_id REFERENCES outbound_mails (outbound_id),
        CONSTRAINT ck_drafts_sent CHECK ((state IN ('sent', 'edited')) = (outbound_id IS NOT NULL))
    )
    """,
    "CREATE INDEX ix_drafts_conversation_id ON drafts (conversation_id)",
    "CREATE INDEX ix_drafts_created_at ON drafts (created_at)",
    "CREATE INDEX ix_drafts_waiting ON drafts (created_at) WHERE state = 'waiting'",
    """
    CREATE TABLE login_links (
        token_hash TEXT NOT NULL CONSTRAINT pk_login_links PRIMARY KEY,
        email TEXT NOT NULL,
        next_path TEXT NOT NULL,
        asked_at MOMENT NOT NULL,
        expires_at MOMENT NOT NULL,
        used_at MOMENT
    )
    """,
    "CREATE INDEX ix_login_links_expires_at ON login_links (expires_at)",
    """
    CREATE TABLE login_attempts (
        attempt_id NUMBER NOT NULL CONSTRAINT pk_login_attempts PRIMARY KEY,
        email TEXT NOT NULL,
        client_address TEXT NOT NULL,
        at MOMENT NOT NULL
    )
    """,
    "CREATE INDEX ix_login_attempts_at ON login_attempts (at)",
    """
    CREATE TABLE sessions (
        session_hash TEXT NOT NULL CONSTRAINT pk_sessions PRIMARY KEY,
        email TEXT NOT NULL,
        began_at MOMENT NOT NULL,
        expires_at MOMENT NOT NULL,
        ended_at MOMENT
    )
    """,
    "CREATE INDEX ix_sessions_expires_at ON sessions (expires_at)",
    """
    CREATE TABLE model_calls (
        call_id NUMBER NOT NULL CONSTRAINT pk_model_calls PRIMARY KEY,
        conversation_id TEXT NOT NULL
            CONSTRAINT fk_model_calls_conversation_id REFERENCES conversations (conversation_id),
        run_id TEXT,
        at MOMENT NOT NULL,
        model TEXT NOT NULL,
        outcome TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL
    )
    """,
    "CREATE INDEX ix_model_calls_conversation_id ON model_calls (conversation_id)",
    "CREATE INDEX ix_model_calls_at ON model_calls (at)",
    """
    CREATE TABLE put_away (
        subject TEXT NOT NULL CONSTRAINT pk_put_away PRIMARY KEY,
        put_away_by TEXT NOT NULL,
        at MOMENT NOT NULL
    )
    """,
)

INDEXES = (
    "CREATE INDEX ix_conversations_handed_over ON conversations (handed_over_at)"
    " WHERE status = 'handed_over'",
    "CREATE INDEX ix_outbound_mails_lost ON outbound_mails (created_at)"
    " WHERE status IN ('failed', 'unknown', 'undelivered')",
    "CREATE INDEX ix_refunds_failed ON refunds (requested_at) WHERE status = 'failed'",
    "CREATE INDEX ix_outbound_mails_created_at ON outbound_mails (created_at)",
    "CREATE INDEX ix_inbound_mails_no_answer ON inbound_mails (received_at)"
    " WHERE status = 'no_answer'",
    "CREATE INDEX ix_audit_actor_at ON audit (actor, at)",
    "CREATE INDEX ix_audit_action_at ON audit (action, at)",
)

# Words of a mail and parts of an address, for the search. SQLite has no such indexes: there the search
# reads the newest mails, and all addresses.
WORDS = (
    "CREATE INDEX ix_inbound_mails_words ON inbound_mails"
    " USING gin (to_tsvector('simple', subject || ' ' || left(new_text, 4000)))",
    # The beginning of an address, whatever order the server's language puts letters in; and the domain.
    "CREATE INDEX ix_conversations_address ON conversations (customer_email text_pattern_ops)",
    "CREATE INDEX ix_conversations_domain ON conversations"
    " (split_part(customer_email, '@', 2), last_mail_at)",
)

# Decisions and the audit trail stand as before, but for erasing a customer: notes may be blanked, and
# providers' words be taken out. Nothing can be put in their place.
_DECIDED = (
    "approval_id", "decision", "decided_by", "decided_at", "amount_minor", "note_shared", "mail_id",
)  # fmt: skip
_AUDITED = ("audit_id", "at", "actor", "action", "subject")
_DECISIONS = ("decisions", "countersignatures")

# Sent in one go they are one transaction: at no moment is a table without its triggers.
WORDS_MAY_GO_POSTGRESQL = (
    *(
        f"DROP TRIGGER IF EXISTS {table}_stand ON {table};"
        f" CREATE TRIGGER {table}_stand BEFORE DELETE OR UPDATE OF {', '.join(_DECIDED)}"
        f" ON {table} FOR EACH ROW EXECUTE FUNCTION mailagent_append_only();"
        f" DROP TRIGGER IF EXISTS {table}_words ON {table};"
        f" CREATE TRIGGER {table}_words BEFORE UPDATE ON {table} FOR EACH ROW"
        " WHEN (NEW.note IS NOT NULL) EXECUTE FUNCTION mailagent_append_only()"
        for table in _DECISIONS
    ),
    "DROP TRIGGER IF EXISTS audit_append_only ON audit;"
    f" CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE OF {', '.join(_AUDITED)}"
    " ON audit FOR EACH ROW EXECUTE FUNCTION mailagent_append_only();"
    " DROP TRIGGER IF EXISTS audit_words ON audit;"
    " CREATE TRIGGER audit_words BEFORE UPDATE ON audit FOR EACH ROW"
    " WHEN (NEW.details IS DISTINCT FROM OLD.details - 'note' - 'why' - 'reason')"
    " EXECUTE FUNCTION mailagent_append_only()",
)


def _same(names: tuple[str, ...]) -> str:
    return " AND ".join(f"NEW.{name} IS OLD.{name}" for name in names)


def _only(table: str, rule: str) -> tuple[str, str]:
    return (
        f"DROP TRIGGER {table}_no_update",
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} WHEN NOT ({rule})"
        f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
    )


WORDS_MAY_GO_SQLITE = (
    *_only("decisions", f"{_same(_DECIDED)} AND NEW.note IS NULL"),
    *_only("countersignatures", f"{_same(_DECIDED)} AND NEW.note IS NULL"),
    *_only(
        "audit",
        f"{_same(_AUDITED)} AND NEW.details IS json_remove(OLD.details, '$.note', '$.why', '$.reason')",
    ),
)
