"""Deadlines that customers are told as a day."""

from __future__ import annotations

from datetime import UTC, datetime


def end_of_day(moment: datetime) -> datetime:
    """Return the last moment of a time's day (UTC): a deadline that is told as a day ends with that day."""
    return moment.astimezone(UTC).replace(hour=23, minute=59, second=59, microsecond=999_999)
