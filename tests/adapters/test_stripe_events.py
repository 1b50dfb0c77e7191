"""Stripe's events: whose they are, and what they say; in the forms in which Stripe sends them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from werkzeug.datastructures import Headers

from mailagent.adapters.stripe.events import TOLERANCE_SECONDS, StripeWebhook, parse_event
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import RefundedTotal, RefundState
from tests.stripe_server import event, sign

OLD, NEW = "whsec_old", "whsec_new"
REFUND: dict[str, Any] = {
    "id": "re_1",
    "object": "refund",
    "amount": 2000,
    "currency": "usd",
    "status": "succeeded",
    "payment_intent": "pi_1",
    "charge": "ch_1",
    "metadata": {"mailagent_key": "r_17", "order_id": "W1001"},
}
BODY = event("refund.updated", REFUND, "evt_1")


def verify(secrets: tuple[str, ...], signature: str, body: bytes, now: datetime) -> bool:
    webhook = StripeWebhook(secrets, livemode=None)
    return webhook.verify(Headers({"Stripe-Signature": signature}), body, now)


@pytest.mark.parametrize(
    ("sign_now", "verified"),
    [
        (lambda: sign(BODY, NEW), True),
        (lambda: sign(BODY, OLD), True),
        (lambda: sign(BODY, "whsec_mallory"), False),
        (lambda: sign(BODY + b" ", NEW), False),
        (lambda: sign(BODY, NEW, int(time.time()) - TOLERANCE_SECONDS + 200), True),
        (lambda: sign(BODY, NEW, int(time.time()) - TOLERANCE_SECONDS - 30), False),
        (lambda: sign(BODY, NEW).replace("v1=", "v0="), False),
        (lambda: "", False),
        (lambda: "t=soon,v1=x", False),
        (lambda: f"t={int(time.time())},v1=\u00e9", False),
    ],
    ids="new old wrong changed recent late scheme none nonsense accent".split(),
)
def test_an_event_is_believed_only_if_it_is_signed_now_with_one_of_the_secrets(
    sign_now: Callable[[], str], verified: bool
) -> None:
    assert verify((NEW, OLD), sign_now(), BODY, datetime.now(UTC)) is verified


@pytest.mark.parametrize(
    ("age_seconds", "verified"),
    [(TOLERANCE_SECONDS, True), (TOLERANCE_SECONDS + 1, False), (-3600, True)],
)
def test_how_old_a_signature_is_goes_by_the_one_clock(age_seconds: int, verified: bool) -> None:
    signed_at = datetime(2020, 2, 29, 12, tzinfo=UTC)  # not the machine's
    header = sign(BODY, NEW, int(signed_at.timestamp()))
    now = signed_at + timedelta(seconds=age_seconds)
    assert verify((NEW,), header, BODY, now) is verified


@pytest.mark.parametrize(
    ("version", "warned"),
    [("2025-02-24.acacia", True), ("2025-03-31.basil", False), (None, False)],
)
def test_an_event_of_a_version_that_reports_partial_captures_as_refunds_is_warned_of(
    caplog: pytest.LogCaptureFixture, version: str | None, warned: bool
) -> None:
    told = json.loads(BODY) | {"api_version": version}
    assert len(parse_event(json.dumps(told).encode()).refunds) == 1
    assert ("evt_1 has API version 2025-02-24.acacia" in caplog.text) is warned


def test_bytes_that_are_no_text_are_not_signed_by_anybody() -> None:
    assert not verify((NEW,), sign(b"\xff", NEW), b"\xff", datetime.now(UTC))


@pytest.mark.parametrize(
    "kind", ["refund.created", "refund.updated", "refund.failed", "charge.refund.updated"]
)
def test_a_refund_is_read(kind: str) -> None:
    (told,) = parse_event(event(kind, REFUND, "evt_1")).refunds
    assert (told.reference, told.amount, told.state) == (
        "re_1",
        Money(2000, "USD"),
        RefundState.SETTLED,
    )
    assert told.payment_ids == ("pi_1", "ch_1")
    assert (told.idempotency_key, told.order_id) == ("r_17", "W1001")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("pending", RefundState.PENDING),
        ("requires_action", RefundState.PENDING),
        ("succeeded", RefundState.SETTLED),
        ("failed", RefundState.FAILED),
        ("canceled", RefundState.FAILED),
    ],
)
def test_every_status_of_stripe_s_is_known(status: str, state: RefundState) -> None:
    (told,) = parse_event(event("refund.updated", REFUND | {"status": status}, "evt_1")).refunds
    assert told.state is state


def test_a_charge_may_bring_its_refunds_or_only_their_sum() -> None:
    charge = {"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount_refunded": 2000}
    charge["currency"] = "usd"
    bare = parse_event(event("charge.refunded", charge, "evt_1", created=1_790_000_000))
    at = datetime.fromtimestamp(1_790_000_000, UTC)
    assert bare.refunds == ()
    assert bare.given_back == RefundedTotal("stripe", ("pi_1", "ch_1"), Money(2000, "USD"), at)
    made = {name: REFUND[name] for name in ("id", "amount", "currency", "status")}
    listed = parse_event(event("charge.refunded", charge | {"refunds": {"data": [made]}}, "evt_2"))
    assert [each.payment_ids for each in listed.refunds] == [("pi_1", "ch_1")]
    assert listed.given_back is None


@pytest.mark.parametrize(
    ("status", "charged_back"),
    [
        ("needs_response", True),
        ("under_review", True),
        ("lost", True),
        ("something_new", True),
        ("prevented", True),
        ("won", False),
        ("warning_needs_response", None),
        ("warning_closed", None),
    ],
)
def test_a_dispute_takes_the_money_but_an_inquiry_does_not(
    status: str, charged_back: bool | None
) -> None:
    content = {"id": "dp_1", "payment_intent": "pi_1", "charge": "ch_1", "status": status}
    told = parse_event(event("charge.dispute.created", content, "evt_1")).dispute
    assert told is not None
    assert (told.charged_back, told.payment_ids) == (charged_back, ("pi_1", "ch_1"))


@pytest.mark.parametrize(
    ("case_type", "charged_back"), [("block", False), ("resolution", True), (None, True)]
)
def test_only_a_case_that_never_took_money_is_over_when_it_was_prevented(
    case_type: str | None, charged_back: bool
) -> None:
    card = {"brand": "visa", "case_type": case_type}
    content = {"id": "dp_1", "payment_intent": "pi_1", "status": "prevented"} | {
        "payment_method_details": {"type": "card", "card": card}
    }
    told = parse_event(event("charge.dispute.created", content, "evt_1")).dispute
    assert told is not None
    assert told.charged_back is charged_back


@pytest.mark.parametrize(
    "change", [{"status": "lost in space"}, {"amount": None}, {"id": None}], ids=str
)
def test_what_cannot_be_understood_is_kept_with_its_problem(change: dict[str, Any]) -> None:
    told = parse_event(event("refund.updated", REFUND | change, "evt_1"))
    assert told.problem
    assert not told.refunds


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id": "evt_1", "type": "x"}'])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not an event"):
        parse_event(body)


def test_kinds_that_nobody_asked_for_say_nothing() -> None:
    told = parse_event(event("customer.created", {"id": "cus_1"}, "evt_1", created=1_790_000_000))
    assert (told.refunds, told.dispute, told.problem) == ((), None, None)
    assert told.occurred_at == datetime.fromtimestamp(1_790_000_000, UTC)


def test_what_is_kept_of_an_event_names_nobody() -> None:
    content = REFUND | {
        "destination_details": {"card": "4242"},
        "customer_email": "ada@example.com",
    }
    kept = json.dumps(parse_event(event("refund.updated", content, "evt_1")).body())
    assert "re_1" in kept
    assert "ada" not in kept
    assert "4242" not in kept
