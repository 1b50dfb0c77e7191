"""How long a server asks to wait before it is asked again: Retry-After and what providers have beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz

LONGEST_WAIT_SECONDS = 3600.0


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait, or None if it does not say or makes no sense.

    `retry-after-ms` is OpenAI's; Retry-After is seconds or a date (RFC 9110 section 10.2.3). Names are
    looked up in lower case.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return within_reason(float(headers.get(name, "")) / divisor)
        except ValueError:
            continue
    date = parsedate_tz(headers.get("retry-after", ""))
    try:
        return within_reason(mktime_tz(date) - time.time()) if date else None
    except (ValueError, OverflowError):
        return None


def within_reason(seconds: float) -> float | None:
    """Return a wait, at most an hour; None for one that makes no sense."""
    if math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_WAIT_SECONDS)
