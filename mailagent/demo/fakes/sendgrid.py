"""A local server that speaks SendGrid's v3 API and keeps the demo's mailboxes.

`POST /v3/mail/send` and `GET /v3/messages` are SendGrid's; `/demo/...` is for the demo's page and story.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Any
from urllib.parse import parse_qs

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.mailboxes import Mailboxes, MailContent, SentMail
from mailagent.demo.fakes.webhooks import build_body

_SIZE_LIMIT_BYTES = 30 * 1024 * 1024


class CustomerMailProblem(ValueError):
    """A letter that cannot be sent; the text says why."""


class SendGridServer(LocalServer):
    """`app_origins`: the pages that may use the demo's own routes from a browser. The account does not have
    Email Activity, an add-on, unless `has_activity` is set."""

    has_activity = False

    def __init__(
        self,
        mailboxes: Mailboxes,
        support_address: str,
        app_origins: tuple[str, ...] = (),
        port: int = 0,
    ) -> None:
        self._mailboxes = mailboxes
        self._support_address = support_address
        self._app_origins = app_origins
        routes = {
            "POST /v3/mail/send": self._send,
            "GET /v3/messages": self._find,
            "POST /demo/letters": self._write,
            "OPTIONS /demo/letters": self._allow,
            "GET /demo/mailboxes": self._read,
        }
        super().__init__(routes, lambda request: _errors(404, [("", "Not found")]), port)

    def _send(self, request: Request) -> Answer:
        if not _has_key(request):
            return _errors(
                401, [("", "The provided authorization grant is invalid, expired, or revoked")]
            )
        if len(request.body) > _SIZE_LIMIT_BYTES:
            return _errors(413, [("", "The JSON payload you have included is too large.")])
        if request.headers.get_content_type() != "application/json":
            return _errors(415, [("", "Content-Type should be application/json.")])
        try:
            body = json.loads(_unpacked(request))
        except (ValueError, OSError, EOFError) as problem:
            return _errors(400, [("", f"Bad Request: the body is not JSON ({problem})")])
        problems = find_problems(body)
        if problems:
            return _errors(400, problems)
        mails = mails_in(body)
        for mail in mails:
            self._mailboxes.record_sent(mail)
        return Answer(202, None, {"X-Message-Id": mails[0].mail_id})

    def _find(self, request: Request) -> Answer:
        if not self.has_activity:
            return _errors(403, [("", "access forbidden")])
        query = parse_qs(request.query).get("query", [""])[0]
        asked = _BY_ARGUMENT.fullmatch(query)
        if asked is None:
            return _errors(400, [("query", f"invalid syntax: {query!r}")])
        found = [mail for mail in self._records() if mail.custom_args.get(asked[1]) == asked[2]]
        return Answer(200, {"messages": [_activity_of(mail) for mail in found]})

    def _records(self) -> list[SentMail]:
        return self._mailboxes.sent()

    def _write(self, request: Request) -> Answer:
        origin = request.headers.get("Origin")
        # A page of another site could otherwise write letters through the visitor's browser.
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
            raise CustomerMailProblem("a letter is a JSON object with from, subject and text")
        answered = self._answered(fields.get("in_reply_to"))
        name, address = parseaddr(str(fields.get("from", "")))
        if "@" not in address:
            raise CustomerMailProblem("from: a mail address is needed")
        text = str(fields.get("text", ""))
        mail_number = secrets.token_hex(8)
        return MailContent(
            mail_number=mail_number,
            from_name=name,
            from_address=address,
            to=str(fields.get("to") or _answer_address(answered) or self._support_address),
            subject=str(fields.get("subject") or _answer_subject(answered) or "(no subject)"),
            text=f"{text}\n\n{_quote(answered)}" if answered else text,
            message_id=f"{mail_number}@mail.{address.rpartition('@')[2]}",
            in_reply_to=answered.message_id if answered else None,
            references=answered.references if answered else "",
            aligned=fields.get("aligned", True) is not False,
            sent_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _answered(self, mail_id: object) -> SentMail | None:
        if not mail_id:
            return None
        mail = self._mailboxes.find_sent(str(mail_id))
        if mail is None:
            raise CustomerMailProblem(f"in_reply_to: there is no mail {mail_id}")
        return mail

    def _read(self, request: Request) -> Answer:
        return Answer(200, self._mailboxes.as_data(), self._cors(request))

    def _allow(self, request: Request) -> Answer:
        allowed = {
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "Content-Type",
        }
        return Answer(204, None, {**self._cors(request), **allowed})

    def _cors(self, request: Request) -> Mapping[str, str]:
        """Let the demo's page read the answer itself: it must work while the app is dead."""
        origin = request.headers.get("Origin", "")
        if origin not in self._app_origins:
            return {}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


# The one query that is known: by a unique argument.
_BY_ARGUMENT = re.compile(r"\(unique_args\['(\w+)'\]=\"([^\"]*)\"\)")


def _activity_of(mail: SentMail) -> dict[str, Any]:
    return {
        "from_email": mail.from_address,
        "msg_id": mail.mail_id,
        "subject": mail.subject,
        "to_email": mail.to,
        "status": "delivered",
        "opens_count": 0,
        "clicks_count": 0,
        "last_event_time": mail.sent_at,
    }


def _has_key(request: Request) -> bool:
    # The SDK sends "Bearer None" when it was given no key.
    key = str(request.headers.get("Authorization", ""))
    return bool(re.fullmatch(r"Bearer \S+", key)) and key != "Bearer None"


def _unpacked(request: Request) -> bytes:
    packed = request.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(request.body) if packed else request.body


def _errors(status: int, problems: list[tuple[str, str]]) -> Answer:
    errors: list[dict[str, Any]] = [
        {"message": message, "field": field or None, "help": None} for field, message in problems
    ]
    return Answer(status, {"errors": errors})


def _answer_address(mail: SentMail | None) -> str | None:
    return (mail.reply_to or mail.from_address) if mail else None


def _answer_subject(mail: SentMail | None) -> str | None:
    if mail is None:
        return None
    return mail.subject if mail.subject.lower().startswith("re:") else f"Re: {mail.subject}"


def _quote(mail: SentMail) -> str:
    """Return the answered mail as mail programs quote it below an answer."""
    date = datetime.fromisoformat(mail.sent_at).strftime("%a, %d %b %Y at %H:%M")
    quoted = "\n".join(f"> {line}".rstrip() for line in mail.text.splitlines())
    return f"On {date}, {mail.from_name} <{mail.from_address}> wrote:\n\n{quoted}\n"


# --- mail send ------------------------------------------------------------------------------------


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
