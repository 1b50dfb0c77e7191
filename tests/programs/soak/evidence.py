"""What a soak leaves behind, as plain values: rows, the gateway's books, the mailboxes, the runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.mail.message import Purpose
from mailagent.store.database import Database
from tests.programs.soak.story import Story


@dataclass(frozen=True)
class InboundMail:
    """`answered_by`: our mail that answers it; `message_id`: what the sender called it."""

    mail_id: str
    message_id: str
    status: str
    reason: str | None
    answered_by: str | None
    conversation_id: str | None


@dataclass(frozen=True)
class OurMail:
    outbound_id: str
    status: str
    purpose: str
    refund_id: str | None
    text: str
    to: str
    conversation_id: str | None


@dataclass(frozen=True)
class Arrived:
    """What SendGrid took of us, and for whom."""

    outbound_id: str
    to: str
    text: str


@dataclass(frozen=True)
class RefundRow:
    """`asked`: the managers; `decision`: `approve`, `reject` or none, and `decided_by` whom."""

    refund_id: str
    order_id: str
    status: str
    amount_minor: int
    has_approval: bool
    asked: Sequence[str]
    decision: str | None
    decided_by: str | None


@dataclass(frozen=True)
class Moved:
    """Money that the gateway moved: for which refund, from which payment."""

    refund_id: str
    payment_id: str
    amount_minor: int


@dataclass(frozen=True)
class RunRow:
    """`began` and `ended`: by the clock of the story, in seconds."""

    run_id: str
    workflow: str
    status: str
    error: str = ""
    began: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """`paid`: what was paid by payment; `told`: our mails of which people were told that they may not
    have arrived."""

    story: Story
    inbound: Sequence[InboundMail] = ()
    ours: Sequence[OurMail] = ()
    arrived: Sequence[Arrived] = ()
    told: frozenset[str] = frozenset()
    refunds: Sequence[RefundRow] = ()
    moved: Sequence[Moved] = ()
    paid: Mapping[str, int] = field(default_factory=dict)
    managers: frozenset[str] = frozenset()
    team: frozenset[str] = frozenset()
    runs: Sequence[RunRow] = ()

    def team_has(self, conversation_id: str | None) -> bool:
        """Whether a mail that hands this conversation over reached the team."""
        arrived = {each.outbound_id for each in self.arrived}
        return conversation_id is not None and any(
            mail.purpose == Purpose.HAND_OVER
            and mail.conversation_id == conversation_id
            and mail.to in self.team
            and mail.outbound_id in arrived
            for mail in self.ours
        )


def read_evidence(
    database: Database,
    story: Story,
    mailboxes: Sequence[SentMail],
    moved: Sequence[Mapping[str, Any]],
    paid: Mapping[str, int],
    managers: frozenset[str],
    team: frozenset[str],
) -> Evidence:
    """Read everything, when all is at rest."""
    with database.snapshot() as connection:

        def rows(statement: str) -> Sequence[Any]:
            return connection.execute(sa.text(statement)).all()

        notices = rows("SELECT dedup_key FROM outbound_mails WHERE dedup_key LIKE '%undelivered:%'")
        ours = [OurMail(*row) for row in rows(_OURS)]
        return Evidence(
            story=story,
            inbound=[InboundMail(*row) for row in rows(_INBOUND)],
            ours=ours,
            arrived=[
                Arrived(mail.custom_args["outbound_id"], mail.to, mail.text) for mail in mailboxes
            ],
            told=frozenset(
                mail.outbound_id
                for mail in ours
                if any(mail.outbound_id in notice.dedup_key for notice in notices)
            ),
            refunds=[RefundRow(*row) for row in rows(_REFUNDS)],
            moved=[
                Moved(str(each["metadata"].get("refund_id")), each["payment"], each["amount"])
                for each in moved
            ],
            paid=paid,
            managers=managers,
            team=team,
            runs=[_run(row, time.time() - time.monotonic()) for row in rows(_RUNS)],
        )


def _run(row: Any, ahead_seconds: float) -> RunRow:
    """Return a run; `ahead_seconds`: by how much the clock of its row is ahead of the story's."""
    began, ended = (milliseconds / 1000 - ahead_seconds for milliseconds in (row.began, row.ended))
    return RunRow(row.run_id, row.workflow, row.status, row.error, began, ended)


_INBOUND = (
    "SELECT mail_id, message_id, status, no_answer_reason, answered_by, conversation_id"
    " FROM inbound_mails"
)
_OURS = (
    "SELECT outbound_id, status, purpose, refund_id, text, to_address, conversation_id"
    " FROM outbound_mails"
)
_REFUNDS = (
    "SELECT refund_id, order_id, status, r.amount_minor, approval_id IS NOT NULL, ARRAY(SELECT"
    " manager_email FROM approval_requests a WHERE a.approval_id = approvals.approval_id),"
    " d.decision, d.decided_by"
    " FROM refunds r LEFT JOIN approvals USING (refund_id) LEFT JOIN decisions d USING (approval_id)"
)
_RUNS = (
    "SELECT workflow_uuid AS run_id, name AS workflow, status, coalesce(error, '') AS error,"
    " created_at AS began, coalesce(completed_at, updated_at) AS ended FROM dbos.workflow_status"
)
