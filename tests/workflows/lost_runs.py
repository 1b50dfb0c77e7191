"""Mail whose workflow is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from mailagent import services
from tests.harness import Harness


def later(shop: Harness, **delta: float) -> None:
    """Let time pass for the rows."""
    now = shop.live.now() + timedelta(**delta)
    services.bind(replace(shop.live, now=lambda: now))


def forget_runs(shop: Harness) -> None:
    """Lose every wake-up, as a restored backup of the app's tables would."""
    schema = "" if shop.live.database.engine.dialect.name == "sqlite" else "dbos."
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"DELETE FROM {schema}workflow_status"))
