"""What an answer of SendGrid's v3/mail/send means, and what it means when none comes: the one table from
HTTP to a SendOutcome. Sending, and what follows from the outcome, belong elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import httpx2

from mailagent.adapters.retry_after import retry_after_seconds, within_reason
from mailagent.domain.mail.delivery import (
    Accepted,
    Blame,
    NotSent,
    OutcomeUnknown,
    Refused,
    SendOutcome,
)

_WITHOUT_A_HINT_SECONDS = 60.0


def judge_answer(answer: httpx2.Response) -> SendOutcome:
    """Return the outcome of a call that was answered.

    413 is about this mail. Every other 4xx but 400 would meet each mail alike (403: a sender that is not
    verified, a key without the scope). 400 says what it is about by the fields that it names, if any.
    """
    status = answer.status_code
    if status == 202:
        return Accepted(answer.headers.get("X-Message-Id"))
    if status < 300:
        # A proxy's or a captive portal's page; only 202 is SendGrid's word for "taken".
        return OutcomeUnknown(f"the answer was {status} instead of 202")
    if status < 400:
        return NotSent(
            f"SENDGRID_BASE_URL answers with a redirect ({status}); set it to where that points",
            _WITHOUT_A_HINT_SECONDS,
        )
    if status == 429:
        return NotSent("SendGrid limits our rate (429)", _seconds_to_reset(answer.headers))
    if status >= 500:
        return OutcomeUnknown(f"SendGrid answered {status}; it may have taken the mail")
    why = f"SendGrid answered {status}: {_vendor_words(answer.content)}"
    if status == 413:
        return Refused(why, Blame.MAIL)
    return Refused(why, _blame(answer.content) if status == 400 else Blame.ACCOUNT)


def _blame(body: bytes) -> Blame:
    """Return what a 400 is about: `from` is a setting, and the same in every mail of ours."""
    try:
        fields = {each.get("field") for each in json.loads(body)["errors"]}
    except (ValueError, LookupError, TypeError, AttributeError):
        return Blame.UNSAID
    named = {str(field) for field in fields if field}
    if any(field.partition(".")[0] == "from" for field in named):
        return Blame.ACCOUNT
    return Blame.FIELD if named and len(named) == len(fields) else Blame.UNSAID


def judge_loss(problem: httpx2.RequestError) -> SendOutcome:
    """Return the outcome of a call that got no whole answer."""
    if isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        # There was no connection to SendGrid, so nothing was sent.
        return NotSent(f"SendGrid could not be reached ({problem})", _WITHOUT_A_HINT_SECONDS)
    return OutcomeUnknown(f"no whole answer from SendGrid ({type(problem).__name__}: {problem})")


def _seconds_to_reset(headers: Mapping[str, str]) -> float:
    """Return the wait that `X-RateLimit-Reset` (Unix seconds) or Retry-After asks for, within reason."""
    try:
        wait = within_reason(max(float(headers["X-RateLimit-Reset"]) - time.time(), 1.0))
    except (KeyError, TypeError, ValueError):
        wait = retry_after_seconds(headers)
    return _WITHOUT_A_HINT_SECONDS if wait is None else max(wait, 1.0)


def _vendor_words(body: bytes) -> str:
    """Return SendGrid's error messages, each with the field it names, on one short line."""
    try:
        errors = json.loads(body)["errors"]
        said = "; ".join(f"{each.get('field') or 'mail'}: {each['message']}" for each in errors)
    except (ValueError, LookupError, TypeError, AttributeError):
        said = body.decode("utf-8", "replace")
    return " ".join(said.split())[:500] or "no reason given"
