"""Sends mail through SendGrid's v3 API.

v3/mail/send has no idempotency key, so this module never repeats a request. The caller decides that.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
from sendgrid import SendGridAPIClient

from mailagent.adapters.http import (
    SHARE,
    answered_at,
    retry_after_seconds,
    tls_context,
    within,
    within_reason,
)
from mailagent.domain.mail.delivery import (
    Accepted,
    Blame,
    NotSent,
    OutcomeUnknown,
    Refused,
    SendOutcome,
    Trace,
)
from mailagent.domain.mail.message import OutboundMail
from mailagent.domain.mail.outgoing_file import OutgoingFile

# Characters that end a header line, and all other control characters except the tab.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MESSAGE_ID = re.compile(r"[^<>\s@]+@[^<>\s@]+", re.ASCII)

# A host that cannot be encoded (two dots in a row) would break every call with a UnicodeError.
_BASE_URL = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*)(:\d{1,5})?(/\S*)?",
    re.IGNORECASE,
)

# The statuses for an account without Email Activity, or for a key without the right to it.
_NO_ACTIVITY = frozenset({401, 403, 404})
_ACTIVITY_ASKED_AGAIN_SECONDS = 6 * 3600.0

# Close idle connections before SendGrid does: a POST on a connection that SendGrid is closing may be lost.
KEEP_ALIVE_SECONDS = 5.0
_IDLE_CONNECTIONS = 16

# Fields of a mail that become header lines.
_HEADER_FIELDS = (
    "outbound_id to_address from_address subject message_id reply_to in_reply_to references auto_submitted"
).split()
# RFC 5322 section 2.1.1: a line has at most 998 characters, the header's name among them.
_HEADER_LENGTH = 900


class MailSender:
    """Sends mail through SendGrid. One per process; threads may share it."""

    def __init__(
        self,
        api_key: str,
        base_url: str,
        support_name: str = "Support",
        timeout_seconds: float = 20,
    ) -> None:
        """`support_name`: the display name in From. `timeout_seconds`: for each read. Raises ValueError for a
        key, URL or name that cannot work."""
        if not re.fullmatch(r"[!-~]+", api_key or ""):
            # The SDK would take an empty key from the environment, or send "Bearer None".
            raise ValueError("SENDGRID_API_KEY is empty or has a space or odd character in it")
        if not _BASE_URL.fullmatch(base_url):
            raise ValueError(f"SENDGRID_BASE_URL is {base_url!r}; write https://api.sendgrid.com")
        if _CONTROL.search(support_name):
            raise ValueError(f"the support name {support_name!r} has a line break in it")
        self._support_name = _name(support_name)
        self._timeout_seconds = timeout_seconds
        self._no_activity_until = 0.0
        # The SDK's own client opens a connection for each request. Use only its headers, with a pool that
        # neither repeats requests nor follows redirects.
        sdk = SendGridAPIClient(api_key, host=base_url.rstrip("/"))
        self._http = httpx2.Client(
            base_url=f"{sdk.host}/v3",
            headers=sdk.client.request_headers,
            timeout=timeout_seconds,
            verify=tls_context(),
            limits=httpx2.Limits(
                max_keepalive_connections=_IDLE_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_SECONDS
            ),
        )

    def send(self, mail: OutboundMail) -> SendOutcome:
        """Send `mail` to SendGrid by one request.

        Return NotSent only if SendGrid cannot have accepted the mail: 429, a redirect, no connection. After a
        time-out, a lost connection or a 5xx the outcome is unknown.
        """
        problem = _problem(mail)
        if problem is not None:
            return Refused(f"mail {mail.outbound_id} was not sent: {problem}", Blame.MAIL)
        try:
            body = _request_body(mail, self._support_name)
            return judge_answer(self._request("POST", "/mail/send", json=body))
        except httpx2.RequestError as loss:
            return judge_loss(loss)
        except TimeoutError:
            seconds = self._timeout_seconds * SHARE
            return OutcomeUnknown(f"SendGrid did not end its answer within {seconds:g} s")

    def find_trace(self, outbound_id: str) -> Trace:
        """Search for a mail in the account's Email Activity (`GET /v3/messages`), a paid add-on.

        Source: twilio.com/docs/sendgrid, "Getting Started with the Email Activity Feed API".
        """
        if time.monotonic() < self._no_activity_until:
            return Trace.NOT_ASKED
        query = f"(unique_args['outbound_id']=\"{outbound_id}\")"
        try:
            answer = self._request("GET", "/messages", params={"query": query, "limit": 1})
            if answer.status_code in _NO_ACTIVITY:
                self._no_activity_until = time.monotonic() + _ACTIVITY_ASKED_AGAIN_SECONDS
            found = answer.raise_for_status().json()["messages"]
        except (httpx2.HTTPError, TimeoutError, ValueError, LookupError, TypeError):
            return Trace.NOT_ASKED
        return Trace.FOUND if found else Trace.NONE

    def _request(self, method: str, path: str, **content: Any) -> httpx2.Response:
        """Send one request. Raises httpx2.RequestError, or TimeoutError if the answer does not end in time."""
        return within(
            self._timeout_seconds * SHARE, lambda: self._http.request(method, path, **content)
        )


def _problem(mail: OutboundMail) -> str | None:
    """Return why this mail cannot be sent, such as a field that would inject a header line, or an invalid
    Message-ID; None if it can."""
    for field in _HEADER_FIELDS:
        value = getattr(mail, field) or ""
        if _CONTROL.search(value if isinstance(value, str) else "".join(value)):
            return f"{field} has a line break or control character in it; take it out of the row"
    if not _is_message_id(mail.message_id):
        return f"message_id {mail.message_id!r} is not of the form id@domain"
    return None


def _request_body(mail: OutboundMail, support_name: str) -> dict[str, object]:
    """Return the body of v3/mail/send. `Reply-To`, `To`, `From` and `Subject` have fields of their own; the
    API refuses them as headers."""
    body: dict[str, object] = {
        "personalizations": [{"to": [{"email": mail.to_address}]}],
        "from": {"email": mail.from_address, "name": support_name},
        "subject": mail.subject,
        "content": _content(mail),
        "headers": _headers(mail),
        # SendGrid's staff can read these, so they hold ids only.
        "custom_args": {"outbound_id": mail.outbound_id},
        # Rewritten links look like phishing, and replies would quote them.
        "tracking_settings": {
            "click_tracking": {"enable": False, "enable_text": False},
            "open_tracking": {"enable": False},
            "subscription_tracking": {"enable": False},
        },
    }
    if mail.reply_to:
        body["reply_to"] = {"email": mail.reply_to}
    if mail.files:
        body["attachments"] = [_attachment(file) for file in mail.files]
    return body


def _attachment(file: OutgoingFile) -> dict[str, str]:
    return {
        "content": base64.b64encode(file.content).decode(),
        "filename": file.name,
        "type": file.content_type,
        "disposition": "attachment",
    }


def _content(mail: OutboundMail) -> list[dict[str, str]]:
    parts = [{"type": "text/plain", "value": mail.text}]
    if mail.html is not None:
        parts.append({"type": "text/html", "value": mail.html})
    return parts


def _headers(mail: OutboundMail) -> dict[str, str]:
    headers = {
        "Message-ID": f"<{mail.message_id}>",
        # RFC 3834 section 5. The second header stops out-of-office replies of Exchange.
        "Auto-Submitted": mail.auto_submitted,
        "X-Auto-Response-Suppress": "OOF, AutoReply",
    }
    if parent := _id_list([mail.in_reply_to or ""]):
        headers["In-Reply-To"] = parent
    if chain := _id_list(mail.references):
        headers["References"] = chain
    return headers


def _id_list(message_ids: Iterable[str]) -> str:
    """Return a header value without invalid ids. If the line is too long, leave out the oldest ids except the
    first."""
    kept = [f"<{each}>" for each in message_ids if _is_message_id(each)]
    while len(" ".join(kept)) > _HEADER_LENGTH:
        del kept[1 if len(kept) > 1 else 0]
    return " ".join(kept)


def _is_message_id(text: str) -> bool:
    return text.isascii() and _MESSAGE_ID.fullmatch(text) is not None


def _name(name: str) -> str:
    """Return a display name without `;` and `,`: mail programs split address lists at them."""
    return " ".join(re.sub(r"[;,]", " ", name).split())


# --- answers --------------------------------------------------------------------------------------


_WITHOUT_A_HINT_SECONDS = 60.0


def judge_answer(answer: httpx2.Response) -> SendOutcome:
    """Return the outcome of a call by SendGrid's response.

    413 is about this mail. 400 may name the fields that it is about. All other 4xx would occur for every mail
    (403: an unverified sender, or a key without the scope).
    """
    status = answer.status_code
    if status == 202:
        return Accepted(answer.headers.get("X-Message-Id"))
    if status < 300:
        # SendGrid accepts mail only with 202. This may be a page of a proxy.
        return OutcomeUnknown(f"the answer was {status} instead of 202")
    if status < 400:
        return NotSent(
            f"SENDGRID_BASE_URL answers with a redirect ({status}); set it to the target URL",
            _WITHOUT_A_HINT_SECONDS,
        )
    if status == 429:
        return NotSent("SendGrid limits our rate (429)", _seconds_to_reset(answer.headers))
    if status >= 500:
        return OutcomeUnknown(f"SendGrid answered {status}; it may have taken the mail")
    why = f"SendGrid answered {status}: {_vendor_text(answer.content)}"
    if status == 413:
        return Refused(why, Blame.MAIL)
    return Refused(why, _blame(answer.content) if status == 400 else Blame.ACCOUNT)


def _blame(body: bytes) -> Blame:
    """Return what a 400 is about. `from` is a setting, so it is about the account."""
    try:
        fields = {each.get("field") for each in json.loads(body)["errors"]}
    except (ValueError, LookupError, TypeError, AttributeError):
        return Blame.UNSAID
    named = {str(field) for field in fields if field}
    if any(field.partition(".")[0] == "from" for field in named):
        return Blame.ACCOUNT
    return Blame.FIELD if named and len(named) == len(fields) else Blame.UNSAID


def judge_loss(problem: httpx2.RequestError) -> SendOutcome:
    """Return the outcome of a call without a complete response."""
    if isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        # There was no connection to SendGrid, so nothing was sent.
        return NotSent(f"SendGrid could not be reached ({problem})", _WITHOUT_A_HINT_SECONDS)
    return OutcomeUnknown(f"no complete answer from SendGrid ({type(problem).__name__}: {problem})")


def _seconds_to_reset(headers: Mapping[str, str]) -> float:
    """Return the wait in seconds for which `X-RateLimit-Reset` (Unix seconds) or Retry-After asks, at most an
    hour."""
    try:
        seconds = float(headers["X-RateLimit-Reset"]) - answered_at(headers)
        wait = within_reason(max(seconds, 1.0))
    except (KeyError, TypeError, ValueError):
        wait = retry_after_seconds(headers)
    return _WITHOUT_A_HINT_SECONDS if wait is None else max(wait, 1.0)


def _vendor_text(body: bytes) -> str:
    """Return SendGrid's error messages, each with the field it names, on one short line."""
    try:
        errors = json.loads(body)["errors"]
        said = "; ".join(f"{each.get('field') or 'mail'}: {each['message']}" for each in errors)
    except (ValueError, LookupError, TypeError, AttributeError):
        said = body.decode("utf-8", "replace")
    return " ".join(said.split())[:500] or "no reason given"
