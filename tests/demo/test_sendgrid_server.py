"""The demo's SendGrid: what it takes and refuses, and how it delivers."""

from __future__ import annotations

import email
import email.policy
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailagent.adapters.sendgrid.signature import verify
from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.mailboxes import CustomerMailState, Mailboxes
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, WebhookSender

PAGE = "http://127.0.0.1:8000"


@dataclass
class NotingApp:
    """Answers webhooks with `statuses`, the last one for ever, and keeps the requests."""

    statuses: list[int] = field(default_factory=lambda: [200])
    requests: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return Answer(self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0])


@dataclass
class Harness:
    """Everything a test needs of the demo's mail."""

    app: NotingApp
    url: str
    mailboxes: Mailboxes
    webhook_sender: WebhookSender
    inbound_key: WebhookKey
    events_key: WebhookKey

    def post(
        self, path: str, value: Any, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        return post(f"{self.url}{path}", json.dumps(value).encode(), headers)


def post(
    url: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, Any, http.client.HTTPMessage]:
    target = urlsplit(url)
    connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=10)
    sent = {"Content-Type": "application/json", "Authorization": "Bearer demo", **(headers or {})}
    connection.request("POST", target.path, body, sent)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, json.loads(data) if data else None, answer.headers


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    app = NotingApp()
    app_server = LocalServer({}, app.answer)
    mailboxes = Mailboxes()
    server = SendGridServer(mailboxes, "support@shop.example", (PAGE,))
    inbound_key, events_key = WebhookKey(tmp_path / "in.pem"), WebhookKey(tmp_path / "ev.pem")
    webhook_sender = WebhookSender(mailboxes, app_server.url, inbound_key, events_key)
    app_server.start()
    server.start()
    yield Harness(app, server.url, mailboxes, webhook_sender, inbound_key, events_key)
    webhook_sender.stop()
    server.stop()
    app_server.stop()


MAIL: dict[str, Any] = {
    "personalizations": [{"to": [{"email": "Ada@example.com", "name": "Ada"}]}],
    "from": {"email": "support@shop.example", "name": "The shop"},
    "reply_to": {"email": "case+abc@shop.example"},
    "subject": "Re: kettle",
    "content": [
        {"type": "text/plain", "value": "Hello Ada"},
        {"type": "text/html", "value": "<p>Hello Ada</p>"},
    ],
    "headers": {"Message-ID": "<o1@shop.example>", "References": "<a@example.com>"},
    "custom_args": {"outbound_id": "o1"},
}
LETTER = {"from": "Ada Example <ada@example.com>", "subject": "Kettle", "text": "It is broken"}


def is_signed(request: Request, key: WebhookKey) -> bool:
    return verify(
        [key.public_text()],
        request.headers["X-Twilio-Email-Event-Webhook-Timestamp"],
        request.headers["X-Twilio-Email-Event-Webhook-Signature"],
        [request.body],
    )


def form_fields(request: Request) -> dict[str, bytes]:
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + request.body)
    assert not message.defects
    fields = {}
    for part in message.get_payload():
        assert isinstance(part, email.message.Message)
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        fields[str(part.get_param("name", header="Content-Disposition"))] = payload
    return fields


# --- mail from the app ----------------------------------------------------------------------------


def test_a_mail_is_accepted_and_lies_in_the_mailbox(harness: Harness) -> None:
    status, answer, headers = harness.post("/v3/mail/send", MAIL)
    assert (status, answer) == (202, None)
    [mail] = harness.mailboxes.sent("ada@example.com")
    assert headers["X-Message-Id"] == mail.mail_id
    assert (mail.subject, mail.text, mail.html) == ("Re: kettle", "Hello Ada", "<p>Hello Ada</p>")
    assert (mail.message_id, mail.references) == ("o1@shop.example", "<a@example.com>")
    assert mail.custom_args == {"outbound_id": "o1"}


def test_each_recipient_gets_a_mail(harness: Harness) -> None:
    people = [{"email": "mona@shop.example"}, {"email": "max@shop.example"}]
    harness.post("/v3/mail/send", {**MAIL, "personalizations": [{"to": people}]})
    assert [mail.to for mail in harness.mailboxes.sent()] == [
        "mona@shop.example",
        "max@shop.example",
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"personalizations": []}, "personalizations"),
        ({"personalizations": [{"to": []}]}, "personalizations.0.to"),
        ({"personalizations": [{"to": [{"email": "ada"}]}]}, "personalizations.0.to.0.email"),
        ({"personalizations": "ada@example.com"}, "personalizations"),
        ({"from": {"name": "no address"}}, "from.email"),
        ({"reply_to": "case@shop.example"}, "reply_to"),
        ({"subject": ""}, "subject"),
        ({"subject": "Hi\r\nBcc: mallory@evil.example"}, "subject"),
        ({"content": []}, "content"),
        ({"content": list(reversed(MAIL["content"]))}, "content"),
        ({"content": [{"type": "text/plain", "value": ""}]}, "content.0.value"),
        ({"headers": {"To": "mallory@evil.example"}}, "headers"),
        ({"headers": {"X-Note": "a\nb"}}, "headers.X-Note"),
        ({"headers": {"Message-ID": "no brackets"}}, "headers"),
        ({"custom_args": {"outbound_id": 1}}, "custom_args.outbound_id"),
        ({"custom_args": "o1"}, "custom_args"),
        ({"attachements": []}, "attachements"),
    ],
)
def test_a_malformed_mail_is_refused_as_sendgrid_does(
    harness: Harness, change: dict[str, Any], field: str
) -> None:
    status, answer, _ = harness.post("/v3/mail/send", {**MAIL, **change})
    assert status == 400
    assert field in [error["field"] for error in answer["errors"]]
    assert all(set(error) == {"message", "field", "help"} for error in answer["errors"])
    assert harness.mailboxes.sent() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer None"}, 401),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_a_request_without_a_key_or_type_is_refused(
    harness: Harness, headers: dict[str, str], status: int
) -> None:
    assert harness.post("/v3/mail/send", MAIL, headers)[0] == status


def test_a_body_that_is_not_json_is_refused(harness: Harness) -> None:
    assert post(f"{harness.url}/v3/mail/send", b"{")[0] == 400
    assert post(f"{harness.url}/v3/mail/send", b"[]")[0] == 400
    assert post(f"{harness.url}/v3/elsewhere", b"{}")[0] == 404


# --- events ---------------------------------------------------------------------------------------


def test_events_are_signed_and_name_the_mail(harness: Harness) -> None:
    harness.post("/v3/mail/send", MAIL)
    assert harness.webhook_sender.deliver_events()
    [request] = harness.app.requests
    assert request.path == "/webhooks/sendgrid/events"
    assert is_signed(request, harness.events_key)
    events = json.loads(request.body)
    assert [event["event"] for event in events] == ["processed", "delivered"]
    assert {event["outbound_id"] for event in events} == {"o1"}


@pytest.mark.parametrize("status", [302, 400, 404, 503])
def test_events_come_again_until_the_answer_is_2xx(harness: Harness, status: int) -> None:
    harness.app.statuses = [status, 200]
    harness.post("/v3/mail/send", MAIL)
    assert not harness.webhook_sender.deliver_events()
    assert harness.webhook_sender.deliver_events()
    assert len(harness.app.requests) == 2
    assert all(mail.reported for mail in harness.mailboxes.sent())


# --- letters to the app ---------------------------------------------------------------------------


def test_a_letter_arrives_as_inbound_parse_sends_it(harness: Harness) -> None:
    status, answer, _ = harness.post("/demo/letters", LETTER)
    assert status == 202
    assert harness.webhook_sender.deliver_mails()
    [request] = harness.app.requests
    assert request.headers["Content-Type"] == CONTENT_TYPE
    assert is_signed(request, harness.inbound_key)
    fields = form_fields(request)
    assert set(fields) == {
        *("email", "to", "from", "subject", "dkim", "SPF", "sender_ip", "envelope", "charsets")
    }
    assert json.loads(fields["envelope"]) == {
        "to": ["support@shop.example"],
        "from": "ada@example.com",
    }
    assert (fields["dkim"], fields["SPF"]) == (b"{@example.com : pass}", b"pass")
    mail = email.message_from_bytes(fields["email"], policy=email.policy.default)
    assert mail["From"] == "Ada Example <ada@example.com>"
    assert mail["Message-ID"] == f"<{answer['message_id']}>"
    assert b"\r" not in fields["email"]


def test_a_forged_letter_is_not_vouched_for(harness: Harness) -> None:
    harness.post("/demo/letters", {**LETTER, "aligned": False})
    harness.webhook_sender.deliver_mails()
    fields = form_fields(harness.app.requests[0])
    assert (fields["dkim"], fields["SPF"]) == (b"none", b"softfail")


@pytest.mark.parametrize("text", ["Grüße aus Köln ☂", "a\n--xYzZY\nb", "x" * 5000, ""])
def test_any_text_survives_the_way(harness: Harness, text: str) -> None:
    harness.post("/demo/letters", {**LETTER, "text": text, "subject": "Grüße"})
    harness.webhook_sender.deliver_mails()
    source = form_fields(harness.app.requests[0])["email"]
    mail = email.message_from_bytes(source, policy=email.policy.default)
    assert mail.get_content().rstrip("\n") == text
    assert mail["Subject"] == "Grüße"


def test_an_answer_goes_into_the_thread_of_the_mail_it_answers(harness: Harness) -> None:
    harness.post("/v3/mail/send", MAIL)
    [answered] = harness.mailboxes.sent()
    harness.post(
        "/demo/letters",
        {"from": "ada@example.com", "text": "W1001", "in_reply_to": answered.mail_id},
    )
    [letter] = harness.mailboxes.letters()
    assert letter.to == "case+abc@shop.example"
    assert letter.subject == "Re: kettle"
    assert letter.in_reply_to == "o1@shop.example"
    assert letter.text.startswith("W1001\n\nOn ")
    assert "> Hello Ada" in letter.text
    harness.webhook_sender.deliver_mails()
    mail = email.message_from_bytes(form_fields(harness.app.requests[0])["email"])
    assert mail["References"] == "<a@example.com> <o1@shop.example>"


@pytest.mark.parametrize(
    ("statuses", "states"),
    [
        ([200], [CustomerMailState.DELIVERED]),
        (
            [503, 500, 200],
            [CustomerMailState.RETRYING, CustomerMailState.RETRYING, CustomerMailState.DELIVERED],
        ),
        ([302], [CustomerMailState.LOST]),
        ([404], [CustomerMailState.LOST]),
    ],
)
def test_letters_are_tried_again_after_5xx_and_lost_after_3xx_and_4xx(
    harness: Harness, statuses: list[int], states: list[CustomerMailState]
) -> None:
    harness.app.statuses = list(statuses)
    harness.post("/demo/letters", LETTER)
    seen = []
    for _ in states:
        harness.webhook_sender.deliver_mails()
        seen.append(harness.mailboxes.letters()[0].state)
    assert seen == states
    harness.webhook_sender.deliver_mails()
    assert len(harness.app.requests) == len(states)


def test_every_try_has_a_signature_of_its_own(harness: Harness) -> None:
    harness.app.statuses = [503, 200]
    harness.post("/demo/letters", LETTER)
    harness.webhook_sender.deliver_mails()
    harness.webhook_sender.deliver_mails()
    first, second = harness.app.requests
    assert first.body == second.body
    assert is_signed(second, harness.inbound_key)


@pytest.mark.parametrize(
    "change",
    [
        {"from": "nobody"},
        {"subject": "a\nBcc: mallory@evil.example"},
        {"in_reply_to": "no such mail"},
    ],
)
def test_what_is_no_letter_is_refused(harness: Harness, change: dict[str, str]) -> None:
    status, answer, _ = harness.post("/demo/letters", {**LETTER, **change})
    assert status == 400
    assert answer["error"]
    assert harness.mailboxes.letters() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": PAGE}, 202),
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_pages_of_other_sites_cannot_write_letters(
    harness: Harness, headers: dict[str, str], status: int
) -> None:
    assert harness.post("/demo/letters", LETTER, headers)[0] == status
