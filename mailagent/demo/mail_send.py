"""What SendGrid's `POST /v3/mail/send` takes: the documented rules, and the mails in one request.

Only the part of the API that a support desk uses; what is not known here is refused, not ignored.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mailagent.demo.mailboxes import SentMail

Problem = tuple[str, str]  # the field and what is wrong with it

_KNOWN = {
    "personalizations",
    "from",
    "reply_to",
    "subject",
    "content",
    "headers",
    "custom_args",
    "categories",
    "tracking_settings",
    "mail_settings",
}
_RESERVED = {
    "x-sg-id",
    "x-sg-eid",
    "received",
    "dkim-signature",
    "content-type",
    "content-transfer-encoding",
    "to",
    "from",
    "subject",
    "reply-to",
    "cc",
    "bcc",
}
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]]{1,64}@[^\s@<>,;:\"()\[\]]+")
_MESSAGE_ID = re.compile(r"<([^<>\s@]+@[^<>\s@]+)>")


def find_problems(body: object) -> list[Problem]:
    """Return every problem of a request body; none means that SendGrid would take it."""
    if not isinstance(body, dict):
        return [("", "Bad Request: the body is not a JSON object")]
    return [
        *((name, "is not known to the demo's SendGrid") for name in sorted(body.keys() - _KNOWN)),
        *_people_problems(body),
        *_text_problems(body),
        *_header_problems(body.get("headers", {})),
        *_argument_problems(body.get("custom_args", {})),
    ]


def _people_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _address_problems(body.get("from"), "from")
    if "reply_to" in body:
        yield from _address_problems(body["reply_to"], "reply_to")
    groups = body.get("personalizations")
    if not isinstance(groups, list) or not groups:
        yield "personalizations", "You must have at least one personalization."
        return
    for number, group in enumerate(groups):
        where = f"personalizations.{number}"
        people = group.get("to") if isinstance(group, dict) else None
        if not isinstance(people, list) or not people:
            yield f"{where}.to", "The to array is required and must not be empty."
            continue
        yield from _header_problems(group.get("headers", {}))
        yield from _argument_problems(group.get("custom_args", {}))
        for place, person in enumerate(people):
            yield from _address_problems(person, f"{where}.to.{place}")


def _address_problems(person: object, where: str) -> Iterator[Problem]:
    address = person.get("email") if isinstance(person, dict) else None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        yield f"{where}.email", "Does not contain a valid address."
    elif isinstance(person, dict) and _breaks(str(person.get("name", ""))):
        yield f"{where}.name", "The value cannot contain CR or LF characters."


def _text_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    subject, content = body.get("subject"), body.get("content")
    if not isinstance(subject, str) or not subject:
        yield "subject", "The subject is required."
    elif _breaks(subject):
        yield "subject", "The value cannot contain CR or LF characters."
    if not isinstance(content, list) or not content:
        yield "content", "There must be at least one defined content block."
        return
    if not all(isinstance(part, dict) and part.get("value") for part in content):
        yield "content", "Each content block needs a type and a value."
        return
    kinds = [part.get("type") for part in content]
    if kinds not in (["text/plain"], ["text/html"], ["text/plain", "text/html"]):
        yield "content", "If present, text/plain must be first, followed by text/html, each once."


def _header_problems(headers: object) -> Iterator[Problem]:
    if not isinstance(headers, dict):
        yield "headers", "An object is expected."
        return
    for name, value in headers.items():
        if name.lower() in _RESERVED:
            yield f"headers.{name}", f"{name} is a reserved header and cannot be set."
        if not isinstance(value, str) or _breaks(value):
            yield f"headers.{name}", "Header values must be strings without CR or LF characters."
        elif name.lower() == "message-id" and not _MESSAGE_ID.fullmatch(value):
            yield f"headers.{name}", "Message-ID must have the form <id@domain>."


def _argument_problems(arguments: object) -> Iterator[Problem]:
    if not isinstance(arguments, dict):
        yield "custom_args", "An object is expected."
    elif not all(isinstance(value, str) for value in arguments.values()):
        yield "custom_args", "Custom arguments must be strings."


def _breaks(text: str) -> bool:
    return "\r" in text or "\n" in text


def mails_in(body: Mapping[str, Any], now: datetime | None = None) -> list[SentMail]:
    """Return one mail for each recipient of a request without problems."""
    sent_at = (now or datetime.now(UTC)).isoformat()
    parts = {part["type"]: part["value"] for part in body["content"]}
    mails = []
    for group in body["personalizations"]:
        headers = {**body.get("headers", {}), **group.get("headers", {})}
        lowered = {name.lower(): value for name, value in headers.items()}
        message_id = _MESSAGE_ID.fullmatch(lowered.get("message-id", ""))
        mails += [
            SentMail(
                mail_id=secrets.token_urlsafe(16),
                to=person["email"].lower(),
                from_address=body["from"]["email"],
                from_name=body["from"].get("name", ""),
                reply_to=body.get("reply_to", {}).get("email"),
                subject=group.get("subject") or body["subject"],
                text=parts.get("text/plain", ""),
                html=parts.get("text/html"),
                message_id=message_id[1] if message_id else None,
                references=lowered.get("references", ""),
                custom_args={**body.get("custom_args", {}), **group.get("custom_args", {})},
                sent_at=sent_at,
            )
            for person in group["to"]
        ]
    return mails
