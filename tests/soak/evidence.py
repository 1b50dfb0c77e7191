"""What a soak leaves behind, as plain values: rows, the gateway's books, the mailboxes, the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from mailagent.demo.mailboxes import SentMail
from mailagent.store.database import Database


@dataclass(frozen=True)
class InboundMail:
    """`answered_by`: our mail that answers it; `message_id`: what the sender called it."""

    mail_id: str
    message_id: str
    status: str
    reason: str | None
    answered_by: str | None


@dataclass(frozen=True)
class OurMail:
    outbound_id: str
    status: str
    purpose: str
    refund_id: str | None
    text: str
    to: str


@dataclass(frozen=True)
class RefundRow:
    """`needs_manager`: whether anybody was asked; `decided_by`: who decided that it be paid."""

    refund_id: str
    order_id: str
    status: str
    amount_minor: int
    needs_manager: bool
    decided_by: str | None


@dataclass(frozen=True)
class Moved:
    """Money that the gateway moved: for which refund, from which payment."""

    refund_id: str
    payment_id: str
    amount_minor: int


@dataclass(frozen=True)
class RunRow:
    run_id: str
    workflow: str
    status: str
    error: str = ""


@dataclass(frozen=True)
class Evidence:
    """`accepted`: the Message-IDs that the webhook thanked for; `paid`: what was paid by payment;
    `arrived`: how often each of our mails reached SendGrid's acceptance; `told`: our mails of which
    people were told that they may not have arrived."""

    accepted: frozenset[str]
    inbound: Sequence[InboundMail] = ()
    ours: Sequence[OurMail] = ()
    arrived: Mapping[str, int] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    refunds: Sequence[RefundRow] = ()
    moved: Sequence[Moved] = ()
    paid: Mapping[str, int] = field(default_factory=dict)
    managers: frozenset[str] = frozenset()
    runs: Sequence[RunRow] = ()


def read_evidence(
    database: Database,
    accepted: set[str],
    mailboxes: Sequence[SentMail],
    moved: Sequence[Mapping[str, Any]],
    paid: Mapping[str, int],
    managers: frozenset[str],
) -> Evidence:
    """Read everything, when all is at rest."""
    with database.snapshot() as connection:

        def rows(statement: str) -> Sequence[Any]:
            return connection.execute(sa.text(statement)).all()

        notices = rows("SELECT dedup_key FROM outbound_mails WHERE dedup_key LIKE '%undelivered:%'")
        ours = rows("SELECT * FROM outbound_mails")
        return Evidence(
            accepted=frozenset(accepted),
            inbound=[
                InboundMail(
                    row.mail_id, row.message_id, row.status, row.no_answer_reason, row.answered_by
                )
                for row in rows("SELECT * FROM inbound_mails")
            ],
            ours=[
                OurMail(
                    row.outbound_id,
                    row.status,
                    row.purpose,
                    row.refund_id,
                    row.text,
                    row.to_address,
                )
                for row in ours
            ],
            arrived=Counter(mail.custom_args["outbound_id"] for mail in mailboxes),
            told=frozenset(
                row.outbound_id
                for row in ours
                if any(row.outbound_id in notice.dedup_key for notice in notices)
            ),
            refunds=[RefundRow(*row) for row in rows(_REFUNDS)],
            moved=[
                Moved(str(each["metadata"].get("refund_id")), each["payment"], each["amount"])
                for each in moved
            ],
            paid=paid,
            managers=managers,
            runs=[RunRow(*row) for row in rows(_RUNS)],
        )


_REFUNDS = (
    "SELECT refund_id, order_id, status, amount_minor, EXISTS (SELECT 1 FROM approvals a"
    " WHERE a.refund_id = refunds.refund_id), (SELECT max(d.decided_by) FROM decisions d"
    " JOIN approvals USING (approval_id) WHERE approvals.refund_id = refunds.refund_id"
    " AND d.decision = 'approve') FROM refunds"
)
_RUNS = "SELECT workflow_uuid, name, status, coalesce(error, '') FROM dbos.workflow_status"
