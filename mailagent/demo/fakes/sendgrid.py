"""A local server that speaks SendGrid's v3 API and keeps the demo's mailboxes.

`POST /v3/mail/send` and `GET /v3/messages` are SendGrid's; `/demo/...` is for the demo's page and story.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Base64Bytes, BaseModel, ConfigDict, Field, ValidationError

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.mailboxes import AttachedFile, Mailboxes, MailContent, SentMail
from mailagent.demo.fakes.webhooks import build_body

_SIZE_LIMIT_BYTES = 30 * 1024 * 1024
_FILES_BYTES = 700 * 1024  # in base64 this is less than the app takes of a form


class SendGridServer(LocalServer):
    """`app_origins`: the pages that may use the demo's own routes from a browser."""

    def __init__(
        self, mailboxes: Mailboxes, support_address: str, app_origins: tuple[str, ...] = ()
    ) -> None:
        self._mailboxes = mailboxes
        self._support_address = support_address
        self._app_origins = app_origins
        routes = {
            "POST /v3/mail/send": self._send,
            "GET /v3/messages": self._find,
            "GET /v3/scopes": self._tell_scopes,
            "POST /demo/letters": self._write,
            "OPTIONS /demo/letters": self._allow,
            "GET /demo/mailboxes": self._read,
        }
        super().__init__(routes, lambda request: _errors(404, [("", "Not found")]))

    def _send(self, request: Request) -> Answer:
        if not _has_key(request):
            return _errors(
                401, [("", "The provided authorization grant is invalid, expired, or revoked")]
            )
        if len(request.body) > _SIZE_LIMIT_BYTES:
            return _errors(413, [("", "The JSON payload you have included is too large.")])
        if request.headers.get_content_type() != "application/json":
            return _errors(415, [("", "Content-Type should be application/json.")])
        mail = _parse_mail(request.body)
        if isinstance(mail, list):
            return _errors(400, mail)
        recorded = _recorded(mail)
        for each in recorded:
            self._mailboxes.record_sent(each)
            if _is_token_address(each.to, self._support_address):
                self._mailboxes.queue_mail(_come_back(each))
        return Answer(202, None, {"X-Message-Id": recorded[0].mail_id})

    def _find(self, _request: Request) -> Answer:
        """Refuse to search: the account has no Email Activity add-on."""
        return _errors(403, [("", "access forbidden")])

    def _tell_scopes(self, request: Request) -> Answer:
        return Answer(200, {"scopes": ["mail.send"]}) if _has_key(request) else _errors(401, [])

    def _write(self, request: Request) -> Answer:
        origin = request.headers.get("Origin")
        # Otherwise a page of another site could write mail through the visitor's browser.
        if origin and origin not in self._app_origins:
            return _errors(403, [("", f"{origin} may not write letters here")])
        if request.headers.get_content_type() != "application/json":
            return _errors(415, [("", "Content-Type should be application/json.")])
        try:
            letter = self._letter(json.loads(request.body))
            build_body(letter)
        except ValueError as problem:
            return Answer(400, {"error": str(problem)}, self._cors(request))
        self._mailboxes.queue_mail(letter)
        names = {"mail_number": letter.mail_number, "message_id": letter.message_id}
        return Answer(202, names, self._cors(request))

    def _letter(self, fields: object) -> MailContent:
        if not isinstance(fields, dict):
            raise ValueError("a letter is a JSON object with from, subject and text")
        answered = None
        if mail_id := fields.get("in_reply_to"):
            answered = self._mailboxes.find_sent(str(mail_id))
            if answered is None:
                raise ValueError(f"in_reply_to: there is no mail {mail_id}")
        name, address = parseaddr(str(fields.get("from", "")))
        if "@" not in address:
            raise ValueError("from: a mail address is needed")
        to, subject, text = self._support_address, "(no subject)", str(fields.get("text", ""))
        if answered:
            to = answered.reply_to or answered.from_address
            subject = f"Re: {re.sub('^re: ', '', answered.subject, flags=re.IGNORECASE)}"
            text = f"{text}\n\n{_quote(answered)}"
        mail_number = secrets.token_hex(8)
        return MailContent(
            mail_number=mail_number,
            from_name=name,
            from_address=address,
            to=str(fields.get("to") or to),
            subject=str(fields.get("subject") or subject),
            text=text,
            message_id=f"{mail_number}@mail.{address.rpartition('@')[2]}",
            in_reply_to=answered.message_id if answered else None,
            references=answered.references if answered else "",
            aligned=fields.get("aligned", True) is not False,
            sent_at=datetime.now(UTC).isoformat(timespec="seconds"),
            files=_files(fields.get("files", [])),
        )

    def _read(self, request: Request) -> Answer:
        return Answer(200, self._mailboxes.as_data(), self._cors(request))

    def _allow(self, request: Request) -> Answer:
        allowed = {
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "Content-Type",
        }
        return Answer(204, None, {**self._cors(request), **allowed})

    def _cors(self, request: Request) -> Mapping[str, str]:
        """Allow the demo's page to read the response: the page works even while the app is dead."""
        origin = request.headers.get("Origin", "")
        if origin not in self._app_origins:
            return {}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _files(given: object) -> tuple[AttachedFile, ...]:
    """Return the files of a letter: a list of objects with name, type and data (base64). Raises ValueError."""
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ValueError("files: a list is needed, of objects with name, type and data")
    files = tuple(
        AttachedFile(
            str(each.get("name") or "file"),
            str(each.get("type") or "application/octet-stream"),
            base64.b64decode(str(each.get("data", "")), validate=True),
        )
        for each in given
    )
    if sum(len(file.content) for file in files) > _FILES_BYTES:
        raise ValueError(f"files: together they have at most {_FILES_BYTES // 1024} KB here")
    return files


def _is_token_address(address: str, support_address: str) -> bool:
    local_part, _, domain = address.partition("@")
    return "+" in local_part and domain == support_address.partition("@")[2]


def _come_back(mail: SentMail) -> MailContent:
    """Return a mail to one of our own reply addresses as Inbound Parse gets it: its MX record is SendGrid's."""
    return MailContent(
        mail_number=mail.mail_id,
        from_name=mail.from_name,
        from_address=mail.from_address,
        to=mail.to,
        subject=mail.subject,
        text=mail.text,
        message_id=mail.message_id or mail.mail_id,
        in_reply_to=None,
        references="",
        aligned=True,
        sent_at=mail.sent_at,
    )


def _has_key(request: Request) -> bool:
    # The SDK sends "Bearer None" when it was given no key.
    key = str(request.headers.get("Authorization", ""))
    return bool(re.fullmatch(r"Bearer \S+", key)) and key != "Bearer None"


def _errors(status: int, problems: list[tuple[str, str]]) -> Answer:
    errors: list[dict[str, Any]] = [
        {"message": message, "field": field or None, "help": None} for field, message in problems
    ]
    return Answer(status, {"errors": errors})


def _quote(mail: SentMail) -> str:
    """Return the answered mail as mail programs quote it below an answer."""
    date = datetime.fromisoformat(mail.sent_at).strftime("%a, %d %b %Y at %H:%M")
    quoted = "\n".join(f"> {line}".rstrip() for line in mail.text.splitlines())
    return f"On {date}, {mail.from_name} <{mail.from_address}> wrote:\n\n{quoted}\n"


# --- mail send ------------------------------------------------------------------------------------


Problem = tuple[str, str]  # the field and what is wrong with it

_RESERVED = {"to", "from", "cc", "bcc", "subject", "reply-to", "content-type", "received"}
_ADDRESS = r"^[^\s@<>,;:\"()\[\]]{1,64}@[^\s@<>,;:\"()\[\]]+$"
_MESSAGE_ID = re.compile(r"<([^<>\s@]+@[^<>\s@]+)>")


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if name.lower() in _RESERVED:
            raise ValueError(f"{name} is a reserved header and cannot be set.")
        if name.lower() == "message-id" and not _MESSAGE_ID.fullmatch(value):
            raise ValueError("Message-ID must have the form <id@domain>.")
    return headers


def _check_content(content: list[_Content]) -> list[_Content]:
    kinds = [part.type for part in content]
    if kinds not in (["text/plain"], ["text/html"], ["text/plain", "text/html"]):
        raise ValueError("text/plain must be first, followed by text/html, each once.")
    return content


OneLine = Annotated[str, Field(pattern=r"^[^\r\n]*$", strict=True)]
Headers = Annotated[dict[str, OneLine], AfterValidator(_check_headers)]
Arguments = dict[str, Annotated[str, Field(strict=True)]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Person(_Part):
    email: Annotated[str, Field(pattern=_ADDRESS)]
    name: OneLine = ""


class _Content(_Part):
    type: str
    value: Annotated[str, Field(min_length=1)]


class _Attachment(_Part):
    content: Base64Bytes
    filename: Annotated[OneLine, Field(min_length=1)]
    type: OneLine = "application/octet-stream"
    disposition: Literal["attachment", "inline"] = "attachment"


class _Personalization(_Part):
    to: Annotated[list[_Person], Field(min_length=1)]
    subject: OneLine | None = None
    headers: Headers = {}
    custom_args: Arguments = {}


class _Mail(_Part):
    """What the demo's SendGrid takes of https://www.twilio.com/docs/sendgrid/api-reference/mail-send"""

    personalizations: Annotated[list[_Personalization], Field(min_length=1)]
    from_: Annotated[_Person, Field(alias="from")]
    reply_to: _Person | None = None
    subject: Annotated[OneLine, Field(min_length=1)]
    content: Annotated[list[_Content], AfterValidator(_check_content)]
    attachments: list[_Attachment] = []
    headers: Headers = {}
    custom_args: Arguments = {}
    categories: list[str] = []
    tracking_settings: dict[str, Any] = {}
    mail_settings: dict[str, Any] = {}


def _parse_mail(body: bytes) -> _Mail | list[Problem]:
    """Return the mail of a request body, or every problem that SendGrid would name."""
    try:
        return _Mail.model_validate_json(body)
    except ValidationError as error:
        return [
            (".".join(str(part) for part in each["loc"]), str(each["msg"]))
            for each in error.errors()
        ]


def _recorded(mail: _Mail) -> list[SentMail]:
    """Return one mail for each recipient."""
    parts = {part.type: part.value for part in mail.content}
    files = tuple(AttachedFile(each.filename, each.type, each.content) for each in mail.attachments)
    sent = []
    for group in mail.personalizations:
        headers = {name.lower(): text for name, text in (mail.headers | group.headers).items()}
        message_id = _MESSAGE_ID.fullmatch(headers.get("message-id", ""))
        sent += [
            SentMail(
                mail_id=secrets.token_urlsafe(16),
                to=person.email.lower(),
                from_address=mail.from_.email,
                from_name=mail.from_.name,
                reply_to=mail.reply_to.email if mail.reply_to else None,
                subject=group.subject or mail.subject,
                text=parts.get("text/plain", ""),
                html=parts.get("text/html"),
                message_id=message_id[1] if message_id else None,
                references=headers.get("references", ""),
                custom_args=mail.custom_args | group.custom_args,
                sent_at=datetime.now(UTC).isoformat(),
                files=files,
            )
            for person in group.to
        ]
    return sent
