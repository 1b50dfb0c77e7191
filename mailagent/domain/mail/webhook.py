"""How old a signed webhook of the mail provider may be. Pure."""

from __future__ import annotations

from datetime import datetime

# SendGrid keeps mail that it cannot deliver for 72 hours, and does not say whether it signs a retry again.
USUAL_HOURS = 24
MOST_HOURS = 96

# The provider's clock may be ahead of ours. An attacker cannot have recorded a request of the future.
AHEAD_SECONDS = 3600


def age_seconds(timestamp: str, now: datetime) -> int | None:
    """Return how many seconds ago a request was signed, below 0 for a future time; None for an invalid
    `timestamp`.

    `timestamp`: Unix seconds in decimal digits, as in the header
    (https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features).
    """
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        return None
    return int(now.timestamp()) - int(timestamp)


def is_fresh(timestamp: str, now: datetime, most_hours: int = USUAL_HOURS) -> bool:
    """Decide whether a request was signed within the last `most_hours`, and at most AHEAD_SECONDS in the
    future."""
    age = age_seconds(timestamp, now)
    return age is not None and -AHEAD_SECONDS <= age <= most_hours * 3600
