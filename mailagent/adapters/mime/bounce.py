"""Parses bounces: delivery status notifications (RFC 3464), and the plain texts of older servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mailagent.adapters.mime.headers import Headers, first, parse_block, parse_message_id
from mailagent.adapters.mime.multipart import Span
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.mail.delivery import Bounce, FailedRecipient

RECIPIENTS_MAX = 100
REPORT_MAX_BYTES = 200_000
TEXT_MAX_LENGTH = 30_000

STATUS_TYPES = {"message/delivery-status", "message/global-delivery-status"}
RETURNED_TYPES = {
    "message/rfc822",
    "message/global",
    "text/rfc822-headers",
    "message/global-headers",
}

_STATUS_OF_ACTION = {"failed": "5.0.0", "delayed": "4.0.0"}  # RFC 3464 section 2.3.3
_GROUP_END = re.compile(rb"\r?\n[ \t]*\r?\n")
_STATUS = re.compile(r"(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?![\d.])")
_REPLY_CODE = re.compile(r"(?<![\d.-])([45])\d\d[ -](?!\d)")
_ADDRESS = re.compile(r"[^\s<>()\[\]\",;:]{1,100}@[^\s<>()\[\]\",;:]{3,200}")
_RETURNED_ID = re.compile(
    r"^[>\s]{0,8}Message-ID:\s{0,20}<([^<>\s]{1,998})>", re.IGNORECASE | re.MULTILINE
)

# The lines with which the report ends and the returned mail begins.
_RETURNED_MAIL = re.compile(
    r"\n.{0,40}(?:copy of (?:the|your) message|original message|returned message|message headers?)"
    r"|\n[ \t>]{0,8}(?:return-path|received|message-id|dkim-signature|mime-version|x-[\w-]{1,40}):",
    re.IGNORECASE,
)
_DELAYED = re.compile(
    r"warning (?:message )?only|has been delayed|(?:is|are) delayed|delayed mail|still being retried"
    r"|will (?:be retried|keep trying|continue to (?:try|be attempted|retry))|not yet (?:been )?delivered"
    r"|do not need to re-?send",
    re.IGNORECASE,
)
_MAILBOX_FULL = re.compile(
    r"(?:mail)?box (?:is )?(?:\w+ )?full|(?:over|exceed\w{0,10}) (?:\w+ ){0,3}quota|quota (?:\w+ ){0,2}exceeded"
    r"|mailbox (?:size )?limit",
    re.IGNORECASE,
)
_UNKNOWN_USER = re.compile(
    r"(?:user|recipient|mailbox|address|account|host|domain)\b.{0,40}"
    r"(?:unknown|does not exist|doesn't exist|not found|not listed|is invalid)"
    r"|(?:unknown|no such|invalid) (?:user|recipient|mailbox|address|host|domain|local)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A part of a bounce as bytes, decoded."""

    media_type: str
    data: bytes


def read_bounce(
    headers: Headers, parts: Sequence[ReportPart], text: str, is_notice: bool = True
) -> Bounce:
    """Return the recipients and the returned mail of a bounce, as far as it names them. Never raises.

    `headers`: the bounce's own. `parts`: its status part and its returned part. `text`: its visible text, in
    which older servers write everything. `is_notice`: a mail system wrote it. Then the failure is permanent,
    unless the text is about a delay.
    """
    recipients = [
        recipient
        for part in parts
        if part.media_type in STATUS_TYPES
        for recipient in _status_recipients(part.data[:REPORT_MAX_BYTES])
    ]
    if not any(recipient.address or recipient.original for recipient in recipients):
        told = next((recipient for recipient in recipients if recipient.status), None)
        status = told.status if told else _text_status(text, is_notice)
        recipients = _text_recipients(first(headers, "x-failed-recipients"), text, status)
    returned = [
        parse_message_id(parse_block(part.data, Span(0, len(part.data))).headers)
        for part in parts
        if part.media_type in RETURNED_TYPES
    ]
    match = _RETURNED_ID.search(text[:TEXT_MAX_LENGTH])
    returned.append(match[1] if match else None)
    return Bounce(tuple(recipients[:RECIPIENTS_MAX]), next((one for one in returned if one), None))


def _status_recipients(data: bytes) -> list[FailedRecipient]:
    # The first group of fields is about the report; then follows one for each recipient, after a blank line.
    groups = [
        parse_block(group, Span(0, len(group))).headers
        for group in _GROUP_END.split(data, RECIPIENTS_MAX + 1)
    ]
    return [
        _recipient(fields) for fields in groups if "final-recipient" in fields or "status" in fields
    ]


def _recipient(fields: Headers) -> FailedRecipient:
    # "rfc822; ada@example.com". Some servers write angle brackets, or the address as the sender wrote it.
    original, final = (
        _address(first(fields, name).rpartition(";")[2])
        for name in ("original-recipient", "final-recipient")
    )
    status = _STATUS.search(first(fields, "status")) or _STATUS.search(
        first(fields, "diagnostic-code")
    )
    action = re.match(r"[a-z]{0,20}", first(fields, "action").strip().lower())[0]  # type: ignore[index]  # matches nothing, too
    return FailedRecipient(
        address=final,
        action=action,
        status=status[1] if status else _STATUS_OF_ACTION.get(action, ""),
        original=original,
    )


def _address(text: str) -> str:
    match = _ADDRESS.search(text)
    return (normalise_address(match[0].strip("'.")) or "") if match else ""


def _text_recipients(failed_header: str, text: str, status: str) -> list[FailedRecipient]:
    """Parse a bounce without a status part: return the addresses above the returned mail, all with one
    status."""
    found = failed_header if "@" in failed_header else _report(text)
    named = (_address(match) for match in _ADDRESS.findall(found[:5_000]))
    addresses = [one for one in dict.fromkeys(named) if one] or ([""] if status else [])
    return [FailedRecipient(one, "failed", status) for one in addresses][:RECIPIENTS_MAX]


def _report(text: str) -> str:
    return _RETURNED_MAIL.split(text[:TEXT_MAX_LENGTH], maxsplit=1)[0]


def tells_failure(text: str) -> bool:
    """Return whether a text has a status code, or the words, by which mail systems report that a mail
    failed."""
    return bool(_text_status(text, is_notice=False))


def _text_status(text: str, is_notice: bool) -> str:
    report = _report(text)
    if status := _STATUS.search(report):
        return status[1]
    if code := _REPLY_CODE.search(report):
        return f"{code[1]}.0.0"
    if _DELAYED.search(report):
        return "4.0.0"
    if _UNKNOWN_USER.search(report):
        return "5.1.1"
    if _MAILBOX_FULL.search(report):
        return "5.2.2"
    return "5.0.0" if is_notice and report.strip() else ""
