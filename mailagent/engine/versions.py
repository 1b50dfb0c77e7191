"""Runs and the application version: which of them this release's workers leave to others."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.engine.client import Connected
from mailagent.engine.names import ACTIVE, APPLICATION_VERSION


class Versions(Connected):
    """Looks for runs that wait for workers of another application version."""

    def count_of_other_versions(self, connection: sa.Connection) -> dict[str, int]:
        """Return how many runs that have not ended only workers of another application version take up,
        by that version."""
        runs = self._runs.c
        query = sa.select(runs.application_version, sa.func.count()).where(
            runs.status.in_(sorted(ACTIVE)), runs.application_version != APPLICATION_VERSION
        )
        found = connection.execute(query.group_by(runs.application_version))
        return {str(version): int(count) for version, count in found}

    def latest_version(self) -> str | None:
        """Return the application version whose workers get new runs: the one that was first seen last.
        None before any worker has run."""
        known = self._client.list_application_versions()  # the latest first
        return known[0]["version_name"] if known else None
