"""How long is kept what nobody needs for ever. docs/retention.md says why so long; raw mail has a
setting of its own, beside the other waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

# Of scheduled runs, one a minute and more: long enough to look into a bad weekend's.
SCHEDULED_RUN_DAYS = 2
# Links to log in with and sessions after they have expired, attempts after they were made.
LOGIN_DAYS = 7
# Workers that were not seen, absences of managers that are past.
PRESENCE_DAYS = 7
# More than a year of what the model cost, so that a month can be held against the same one before.
MODEL_CALL_DAYS = 400


@dataclass(frozen=True, slots=True)
class Retention:
    """What a shop may set. `run_days`: histories of runs that have ended; `mail_days`: what was said in
    conversations that are quiet, None for ever."""

    run_days: int = 30
    mail_days: int | None = None

    def runs_before(self, now: datetime) -> datetime:
        """Return the time before which a run must have ended for its history to go."""
        return now - timedelta(days=self.run_days)

    def scheduled_runs_before(self, now: datetime) -> datetime:
        """Return the time before which a scheduled run must have begun for its history to go."""
        return now - timedelta(days=min(SCHEDULED_RUN_DAYS, self.run_days))

    def words_before(self, now: datetime) -> datetime | None:
        """Return since when a conversation must be quiet for its words to go; None if they stay."""
        return None if self.mail_days is None else now - timedelta(days=self.mail_days)
