"""Comparisons as a backtest records them."""

from __future__ import annotations

from dataclasses import replace

from mailagent import services
from mailagent.store.operations import comparisons
from mailagent.store.operations.comparisons import Comparison, Differs, Side, Source
from tests.harness import Harness

PAID = Side(("propose_refund W1001 K1:all -> approved",), ("sorry_damaged", "refund/W1001"))


def record_comparison(shop: Harness, **changes: object) -> Comparison:
    """Record that a model that hands over was asked about a mail: `mail_id` of `conversation_id`."""
    made = Comparison(
        source=Source.BACKTEST,
        mail_id="",
        conversation_id="",
        at=services.current().now(),
        model="small",
        differs=Differs.ACTS,
        draft=None,
        past=PAID,
        now=Side(("hand_over",)),
        error="",
        tokens=1_000,
        cost_micro_usd=30_000,
        milliseconds=1_500,
    )
    made = replace(made, **changes)  # type: ignore[arg-type]
    with shop.live.database.transaction() as connection:
        comparisons.record(connection, made)
    return made
