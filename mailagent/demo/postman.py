"""Carries the demo's mail to the app: letters to the inbound webhook, delivery events to the other.

Tries as the real SendGrid does: letters again after 5xx or no answer, never after 3xx and 4xx;
events until the answer is 2xx. Only the pause is shorter: a second.
"""

from __future__ import annotations

import http.client
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from mailagent.demo.inbound_parse import CONTENT_TYPE, build_body
from mailagent.demo.mailboxes import Letter, LetterState, Mailboxes, SentMail
from mailagent.demo.webhook_key import WebhookKey

PAUSE_SECONDS = 1.0


class Postman:
    """Two threads, so that a letter which cannot be delivered holds up no event."""

    def __init__(
        self, mailboxes: Mailboxes, app_url: str, inbound_key: WebhookKey, events_key: WebhookKey
    ) -> None:
        self._mailboxes = mailboxes
        self._app_url = app_url
        self._inbound_key = inbound_key
        self._events_key = events_key
        self._stopping = threading.Event()

    def start(self) -> None:
        for deliver, waiting in (
            (self.deliver_letters, self._letters_waiting),
            (self.deliver_events, self._events_waiting),
        ):
            threading.Thread(target=self._run, args=(deliver, waiting), daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self, deliver: Callable[[], bool], waiting: Callable[[], bool]) -> None:
        while not self._stopping.is_set():
            if self._mailboxes.wait_for(waiting, PAUSE_SECONDS) and not deliver():
                self._stopping.wait(PAUSE_SECONDS)

    def _letters_waiting(self) -> bool:
        return any(_is_waiting(letter) for letter in self._mailboxes.letters())

    def _events_waiting(self) -> bool:
        return any(not mail.reported for mail in self._mailboxes.sent())

    def deliver_letters(self) -> bool:
        """Try every waiting letter once; return whether none is left waiting."""
        for letter in filter(_is_waiting, self._mailboxes.letters()):
            body = build_body(letter)
            headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "Sendlib/1.0"}
            signed = {**headers, **self._inbound_key.sign(body)}
            answer = _post(f"{self._app_url}/webhooks/sendgrid/inbound", body, signed)
            self._mailboxes.record_letter(_tried(letter, answer))
        return not self._letters_waiting()

    def deliver_events(self) -> bool:
        """Report every mail that is not yet reported, in one batch; return whether it arrived."""
        batch = [mail for mail in self._mailboxes.sent() if not mail.reported]
        events = [event for mail in batch for event in _events_of(mail)]
        # The real one ends every event with CRLF; a receiver that makes its own JSON of the body
        # before it checks the signature must fail here too.
        body = b"[" + b",\r\n".join(json.dumps(event).encode() for event in events) + b"]\r\n"
        headers = {"Content-Type": "application/json", "User-Agent": "SendGrid Event API"}
        signed = {**headers, **self._events_key.sign(body)}
        answer = _post(f"{self._app_url}/webhooks/sendgrid/events", body, signed)
        if not isinstance(answer, int) or not 200 <= answer < 300:
            return False
        for mail in batch:
            self._mailboxes.record_sent(replace(mail, reported=True))
        return True


def _is_waiting(letter: Letter) -> bool:
    return letter.state in (LetterState.WAITING, LetterState.RETRYING)


def _tried(letter: Letter, answer: int | str) -> Letter:
    """Return the letter after one attempt; `answer` is a status, or why there was none."""
    if isinstance(answer, str) or answer >= 500:
        state = LetterState.RETRYING
    elif 200 <= answer < 300:
        state = LetterState.DELIVERED
    else:
        state = LetterState.LOST
    return replace(letter, state=state, attempts=letter.attempts + 1, answer=str(answer))


def _events_of(mail: SentMail) -> list[dict[str, Any]]:
    common = {
        **mail.custom_args,
        "email": mail.to,
        "timestamp": int(datetime.fromisoformat(mail.sent_at).timestamp()),
        "smtp-id": f"<{mail.mail_id}@geopod-ismtpd-0>",
        "sg_message_id": f"{mail.mail_id}.recvd-0-0.0",
    }
    return [
        {**common, "event": "processed", "sg_event_id": secrets.token_urlsafe(16)},
        {
            **common,
            "event": "delivered",
            "sg_event_id": secrets.token_urlsafe(16),
            "response": "250 2.0.0 OK",
        },
    ]


def _post(url: str, body: bytes, headers: dict[str, str]) -> int | str:
    """Return the status of one POST, or why there was none; redirects are not followed."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=30)
    try:
        connection.request("POST", target.path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException) as problem:
        return type(problem).__name__
    finally:
        connection.close()
