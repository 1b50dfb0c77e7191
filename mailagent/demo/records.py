"""What the demo's story reads from the app's database to check its facts: plain SQL, nothing written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RefundRecord:
    """One refund with what hangs on it. `ledger_minor` has one amount for each payment made."""

    refund_id: str
    order_id: str
    amount_minor: int
    status: str
    decided_by: str | None
    ledger_minor: tuple[int, ...]
    decisions: tuple[tuple[str, str], ...]  # (what, by whom)


class Records:
    """The rows of the app at `database`, as they are at each call."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def refunds(self, order_id: str) -> list[RefundRecord]:
        """Return the refunds of one order, oldest first."""
        rows = self._rows(
            "SELECT * FROM refunds WHERE order_id = ? ORDER BY requested_at", order_id
        )
        return [self._refund(row) for row in rows]

    def _refund(self, row: sqlite3.Row) -> RefundRecord:
        refund_id = row["refund_id"]
        ledger = self._rows(
            "SELECT amount_minor FROM ledger_entries WHERE refund_id = ?", refund_id
        )
        decisions = self._rows(
            "SELECT decision, decided_by FROM decisions JOIN approvals USING (approval_id)"
            " WHERE refund_id = ?",
            refund_id,
        )
        return RefundRecord(
            refund_id=refund_id,
            order_id=row["order_id"],
            amount_minor=row["amount_minor"],
            status=row["status"],
            decided_by=row["decided_by"],
            ledger_minor=tuple(entry["amount_minor"] for entry in ledger),
            decisions=tuple((each["decision"], each["decided_by"]) for each in decisions),
        )

    def ledger_count(self) -> int:
        """Return how many payments there are in all."""
        return int(self._rows("SELECT count(*) FROM ledger_entries")[0][0])

    def unfinished(self) -> list[str]:
        """Return what is still to be answered or sent, in words; nothing when all is quiet."""
        mails = self._rows(
            "SELECT subject, status FROM inbound_mails WHERE status = 'unanswered'"
            " UNION ALL SELECT subject, status FROM outbound_mails WHERE status <> 'sent'"
        )
        return [f"{row['subject']} ({row['status']})" for row in mails]

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        # Not mode=ro: a reader of a WAL database has to be able to make its shared-memory file.
        with closing(sqlite3.connect(self._database, timeout=10)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.row_factory = sqlite3.Row
            return connection.execute(query, values).fetchall()
