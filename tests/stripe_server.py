"""A Stripe on this machine, as far as refunds go: keys, the rest of a payment, and faults to order."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from mailagent.demo.fakes.http_server import Answer, LineCut, LocalServer, Request

Create = Callable[[], Answer]
Fault = Callable[[Create], Answer]


@dataclass
class StripeServer:
    """Payments by id with their amount; what was refunded; what goes wrong next, first in the list.

    A fault is given the real call and may make it. `statuses` are what the next refunds begin as. While
    `refusal` is set every refund is refused with it, and the refusal is stored under the key. While `failing`
    is set every refund is made and fails at once for that reason.
    """

    payments: dict[str, int]
    currency: str = "usd"
    faults: list[Fault] = field(default_factory=list)
    read_faults: list[Callable[[], Answer]] = field(default_factory=list)
    refusal: Answer | None = None
    failing: str | None = None
    statuses: list[str] = field(default_factory=list)
    refunds: list[dict[str, Any]] = field(default_factory=list)
    keys_used: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._stored: dict[str, tuple[str, Answer]] = {}
        self._lock = threading.Lock()
        routes = {"POST /v1/refunds": self._create, "GET /v1/refunds": self._list}
        self._server = LocalServer(routes, self._show)
        self.url = self._server.url
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def succeeded(self, payment_id: str) -> list[dict[str, Any]]:
        """Return the refunds of a payment that moved money or may yet do so."""
        gone = {"failed", "canceled"}
        return [x for x in self.refunds if x["payment"] == payment_id and x["status"] not in gone]

    def settle(self, status: str, **changes: str) -> None:
        """Give every refund that is pending another status."""
        for each in self.refunds:
            if each["status"] == "pending":
                each.update(status=status, **changes)

    def forget_keys(self) -> None:
        """Forget every idempotency key, as Stripe does after a day."""
        self._stored.clear()

    def refund_in_dashboard(self, payment_id: str, amount: int) -> dict[str, Any]:
        """Refund as a person in Stripe's dashboard would; return the refund."""
        return self._make(payment_id, amount, {})

    def _create(self, request: Request) -> Answer:
        key = request.headers["Idempotency-Key"] or ""
        sent = request.body.decode()
        with self._lock:
            self.keys_used.append(key)
            if key in self._stored:
                return self._replayed(key, sent)
            fault = self.faults.pop(0) if self.faults else None
        return fault(lambda: self._execute(key, sent)) if fault else self._execute(key, sent)

    def _replayed(self, key: str, sent: str) -> Answer:
        first, answer = self._stored[key]
        if first != sent:
            return error(
                400, None, "Keys can only be used with the same parameters.", "idempotency_error"
            )
        return Answer(answer.status, answer.value, {"Idempotent-Replayed": "true"})

    def _execute(self, key: str, sent: str) -> Answer:
        fields = {name: values[0] for name, values in parse_qs(sent).items()}
        with self._lock:
            if key in self._stored:  # a fault took its time
                return self._replayed(key, sent)
            answer = self._refund(fields)
            self._stored[key] = (sent, answer)
        return answer

    def store_error(self, key: str, sent: str) -> Answer:
        """Store a 500 under a key, as Stripe does when it fails while it executes."""
        self._stored[key] = (sent, error(500, None, "An unknown error occurred", "api_error"))
        return self._stored[key][1]

    def _refund(self, fields: dict[str, str]) -> Answer:
        payment_id = fields.get("payment_intent") or fields.get("charge") or ""
        if payment_id not in self.payments:
            return error(404, "resource_missing", f"No such payment_intent: '{payment_id}'")
        amount = int(fields["amount"])
        left = self.payments[payment_id] - sum(x["amount"] for x in self.succeeded(payment_id))
        if left == 0:
            return error(
                400, "charge_already_refunded", f"Charge {payment_id} has already been refunded."
            )
        if amount > left:
            words = "Refund amount is greater than unrefunded amount on charge"
            return error(400, None, words, param="amount")
        if self.refusal:
            return self.refusal
        metadata = {
            name[9:-1]: text for name, text in fields.items() if name.startswith("metadata[")
        }
        return Answer(200, shown(self._make(payment_id, amount, metadata)))

    def _make(self, payment_id: str, amount: int, metadata: dict[str, str]) -> dict[str, Any]:
        made = {
            "id": f"re_{next(self._numbers)}",
            "object": "refund",
            "amount": amount,
            "currency": self.currency,
            "status": self.statuses.pop(0) if self.statuses else "succeeded",
            "metadata": metadata,
            "payment": payment_id,
        }
        if self.failing:
            made |= {"status": "failed", "failure_reason": self.failing}
        self.refunds.append(made)
        return made

    def _show(self, request: Request) -> Answer:
        kind, _, payment_id = request.path.removeprefix("/v1/").partition("/")
        if kind == "refunds":
            return Answer(200, next(shown(x) for x in self.refunds if x["id"] == payment_id))
        known = {"payment_intents": "payment_intent", "charges": "charge"}
        if kind not in known or payment_id not in self.payments:
            return error(404, "resource_missing", f"No such {kind}: '{payment_id}'")
        return Answer(200, {"id": payment_id, "object": known[kind], "currency": self.currency})

    def _list(self, request: Request) -> Answer:
        if self.read_faults:
            return self.read_faults.pop(0)()
        query = {name: values[0] for name, values in parse_qs(request.query).items()}
        payment_id = query.get("payment_intent") or query.get("charge") or ""
        if payment_id not in self.payments:
            return error(404, "resource_missing", f"No such payment_intent: '{payment_id}'")
        found = [x for x in reversed(self.refunds) if x["payment"] == payment_id]
        ids = [x["id"] for x in found]
        start = ids.index(query["starting_after"]) + 1 if "starting_after" in query else 0
        page = found[start : start + int(query.get("limit", 10))]
        more = start + len(page) < len(found)
        data = [shown(each) for each in page]
        return Answer(200, {"object": "list", "url": "/v1/refunds", "has_more": more, "data": data})


def shown(refund: dict[str, Any]) -> dict[str, Any]:
    """Return a refund as the API shows it: with its payment intent, its charge, or both."""
    payment_id = refund["payment"]
    named = "payment_intent" if payment_id.startswith("pi_") else "charge"
    return {name: value for name, value in refund.items() if name != "payment"} | {
        named: payment_id
    }


def event(kind: str, content: dict[str, Any], event_id: str, created: int | None = None) -> bytes:
    """Return a webhook event as Stripe posts it; `created` is now unless given."""
    told = {
        "id": event_id,
        "object": "event",
        "type": kind,
        "created": int(time.time()) if created is None else created,
        "livemode": False,
        "data": {"object": content},
    }
    return json.dumps(told).encode()


def sign(body: bytes, secret: str, at: int | None = None) -> str:
    """Return the `Stripe-Signature` of a body, made `at` (now): HMAC-SHA256 of time, dot, body."""
    moment = int(time.time()) if at is None else at
    signed = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256)
    return f"t={moment},v0=0000,v1={signed.hexdigest()}"


def error(
    status: int,
    code: str | None,
    message: str,
    kind: str = "invalid_request_error",
    param: str | None = None,
) -> Answer:
    """Return an error in Stripe's form."""
    body = {"type": kind, "message": message}
    body |= {name: text for name, text in (("code", code), ("param", param)) if text}
    return Answer(status, {"error": body})


NO_BALANCE = error(400, "balance_insufficient", "Insufficient funds in your Stripe balance.")
NOT_FOUND = error(404, "resource_missing", "No such payment_intent: 'pi_1'", param="payment_intent")
CARD_ERROR = error(402, "card_declined", "The refund was declined.", "card_error")


def lost_before(_create: Create) -> Answer:
    raise LineCut


def lost_after(create: Create) -> Answer:
    create()
    raise LineCut


def made_but_500(create: Create) -> Answer:
    create()
    return error(500, None, "An unknown error occurred", "api_error")


def limited(_create: Create) -> Answer:
    answer = error(429, "rate_limit", "Too many requests")
    return Answer(answer.status, answer.value, {"Retry-After": "7"})


def in_use(_create: Create) -> Answer:
    return error(409, "idempotency_key_in_use", "There is currently another in-progress request")


def no_key(_create: Create) -> Answer:
    return error(401, None, "Invalid API Key provided: sk_test_****")


def moved(_create: Create) -> Answer:
    return Answer(302, None, {"Location": "/v1/refunds"})
