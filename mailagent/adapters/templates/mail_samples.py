"""Sample facts of every mail, for the check of a shop's own templates, for the gallery, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import ShipmentStatus
from mailagent.domain.refunds.policy import DeclineReason
from mailagent.domain.remedies.remedy import RemedyKind, RemedyStatus

# Mails that customers get; all others go to people of the shop.
TO_CUSTOMERS = frozenset(
    "reply receipt receipts refund_promised refund_offered refund_rejected refund_expired refund_failed"
    " refund_returned handed_over neutral_reply remedy team_reply".split()
)
COMMON = {"support_name": "shop.example", "support_address": "support@shop.example"}
LINK = "https://support.shop.example/approvals/token"
LOGIN_LINK = "https://support.shop.example/ops/login/secret"
REPLAY_LINK = "https://shop.example/ops/runs/refund-01/replay"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

Say = Callable[[str], str]

_ASKED = "Hello, my kettle leaks. I would like my money back; a photo is attached.\n\nAda"
_ANSWER = "Thank you for the photos. The kettle of order W1001 was delivered on 4 November."
_REMEDY = "Exchange for order W1001: we are sorry, this is not possible."  # from _fact.txt
_RECORD = "W1001: 1 × Kettle"  # rendered before, from _record.txt
_NOTICE = (
    "Our mail to ada@example.com about order W1001 could not be sent: the mailbox does not exist.",
    "Conversation: c_17. The mail says: your refund of 49.99 USD was paid.",
)
_USD, _PART = Money(129_900, "USD"), Money(29_900, "USD")
_IN_PART = {"elsewhere": None, "part_paid": _PART, "part_credit": None}
_RETURNED = {"returned": _PART, "is_credit": False}
FIRST_APPROVAL = {
    "decided_by": "max@shop.example",
    "decided_at": NOON - timedelta(hours=3),
    "amount": Money(119_900, "USD"),
    "note": "The photo shows the crack. Less the filter, which they keep.",
}
_GOODWILL = {
    "percent": 10,
    "code": "K7MX-4PQR-9TWZ",
    "expires_at": NOON + timedelta(days=60),
    "order_id": "W1001",
}
VOTE_LINKS = {each: f"https://support.shop.example/helped/{each}" for each in ("yes", "no")}

_PLAIN_RECEIPT: dict[str, Any] = {
    "order_id": "W1002",
    "amount": _PART,
    "items": [{"name": "Lamp", "quantity": 1, "amount": _PART}],
    "shipping": None,
    "asked": None,
    "credit": None,
    "payments": [{"method": "card", "amount": _PART, "reference": None, "expected_days": None}],
    "paid_at": NOON,
    "note": None,
}


def facts_of(words: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the facts of every mail, also optional ones. `words` replace what strangers may write."""

    def say(sample: str) -> str:
        return sample if words is None else words

    thread = {"subject": say("My kettle"), "record": say(_RECORD)}
    name = {"customer_name": say("Ada")}
    refund = thread | {"order_id": "W1001", "amount": _USD}
    return {
        "reply": thread
        | name
        | {
            "text": say(_ANSWER),
            "confirm_code": "482716",
            "confirm_mails": [{"at": NOON, "words": say(each)} for each in ("My kettle", "Why?")],
            "confirm_last_code": "305918",
            "goodwill": _GOODWILL,
            "helped": VOTE_LINKS,
        },
        "receipt": refund | _receipt(say),
        "receipts": thread
        | {"refunds": [refund | _receipt(say) | {"note": words}, _PLAIN_RECEIPT]},
        "refund_promised": refund | name | {"days": 3, "pay_by": NOON + timedelta(days=3)},
        "refund_offered": refund
        | name
        | {"text": say(_ANSWER), "note": say("It is only a scratch.")},
        "refund_rejected": refund | name | {"note": say("The lid was missing from the parcel.")},
        "refund_expired": refund | name | {"requested_at": NOON - timedelta(days=7)},
        "refund_failed": refund | name | _IN_PART | {"payments": _payments(say)[-1:]},
        "refund_returned": refund | name | _RETURNED | {"reference": say("re_3Qx81Kd02")},
        **dict.fromkeys(("handed_over", "neutral_reply"), thread | name | {"goodwill": _GOODWILL}),
        "remedy": thread
        | name
        | {"order_id": "W1001", "text": say(_REMEDY), "note": say("The red one is sold out.")},
        "team_reply": thread | {"text": say(_ANSWER), "member": say("Tess"), "goodwill": _GOODWILL},
        "notice": {
            "title": say("Mail could not be sent"),
            "lines": [say(each) for each in _NOTICE],
            "button": ("See what a replay does", REPLAY_LINK),
            "link": ("See the case", LINK),
            "tables": [("Refunds", [("State", "Amount"), ("Paid", "$1,299.00")])],
        },
        "approval_request": _approval_request(say),
        "login_link": {"link_url": LOGIN_LINK, "minutes": 15},
        "hand_over": {"subject": thread["subject"]} | _hand_over(say),
    }


_THREAD = {"subject": None, "record": None}
_GREETED = _THREAD | {"customer_name": None}
# The facts that may be missing or different.
_WITHOUT: dict[str, dict[str, Any]] = {
    "receipts": _THREAD | {"refunds": [_PLAIN_RECEIPT, _PLAIN_RECEIPT]},
    "reply": _GREETED | {"confirm_code": None, "goodwill": None, "helped": None},
    "receipt": _THREAD
    | {
        "shipping": None,
        "asked": None,
        "credit": Money(140_000, "USD"),
        "note": None,
        "payments": [{"method": "card", "amount": _USD, "reference": None, "expected_days": None}],
    },
    "refund_promised": _GREETED | {"days": 1},
    **dict.fromkeys(("refund_offered", "refund_rejected", "remedy"), _GREETED | {"note": None}),
    "refund_expired": _GREETED,
    "refund_failed": _GREETED
    | {"elsewhere": _USD, "part_credit": _USD, "part_paid": None, "payments": []},
    "refund_returned": _GREETED | {"returned": _USD, "is_credit": True, "reference": None},
    **dict.fromkeys(("handed_over", "neutral_reply"), _GREETED | {"goodwill": None}),
    "team_reply": _THREAD | {"goodwill": None},
    "approval_request": {
        **dict.fromkeys("customer_since shipping short credit following escalates_at".split()),
        **dict.fromkeys(("attachments", "earlier", "others", "notes"), ()),
        "delivered_at": None,
        "customer_name": "",
        "first_approval": FIRST_APPROVAL,
        "may_offer": False,
        "reminds_of": NOON,
        "reply_decides": False,
    },
    "notice": {"button": None, "link": None, "tables": []},
    "hand_over": {"customer_name": "", "sender_verified": True, "summary": None, "refunds": []},
}


def list_fragments() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fragments of replies, each with its facts."""
    for fact in _list_facts():
        yield "_fact.txt", {"fact": fact}
    yield "_helped_page.txt", {}
    refunds = [_refund(status, part_paid) for status, part_paid in _REFUND_STATES]
    refunds += _PROMISED
    for some, more in ((refunds, _NO_MORE), *(([], each) for each in _MORE)):
        yield "_record.txt", {"orders": [{"order_id": "W1001", "refunds": some, **more}]}


# What is on record of an order beside its refunds.
_PARCEL = {
    "status": "in_transit",
    "carrier": "DHL",
    "number": "JD0141",
    "link": "https://dhl.example/JD0141",
    "items": ["1 × Kettle"],
    **dict.fromkeys(("shipped_at", "expected_at", "last_event_at"), NOON),
    "delivered_at": None,
}
_PARCELS = [
    *(_PARCEL | {"status": status.value} for status in ShipmentStatus),
    dict.fromkeys(_PARCEL) | {"status": "delivered", "delivered_at": NOON, "items": []},
]
_OFFER = {
    "is_open": True,
    "accepted": False,
    "percent": 30,
    "amount": _PART,
    "expires_at": NOON,
    "items": ["1 × Kettle"],
}
_NO_MORE: dict[str, Any] = {
    "parcels": [],
    **dict.fromkeys(("as_of", "elsewhere", "offer", "discount")),
}
_MORE = (
    _NO_MORE | {"parcels": _PARCELS},
    _NO_MORE | {"parcels": _PARCELS, "as_of": NOON},
    _NO_MORE | {"offer": _OFFER},
    _NO_MORE | {"elsewhere": _PART, "as_of": NOON},
    _NO_MORE | {"discount": {"percent": 10, "expires_at": NOON}},
)
_REFUND_STATES = (
    ("awaiting_approval", None), ("approved", None), ("approved", _PART), ("paid", None), ("rejected", None),
    ("expired", None), ("withdrawn", None), ("lapsed", None), ("failed", None), ("failed", _PART),
)  # fmt: skip


def _refund(status: str, part_paid: Money | None) -> dict[str, Any]:
    return {
        "status": status,
        "amount": _USD,
        "asked": _USD,
        "items": [{"name": "Kettle", "quantity": 2}],
        "requested_at": NOON,
        "paid_at": NOON,
        "part_paid": part_paid,
        "returned": part_paid,
        **dict.fromkeys("credit part_credit returned_credit pay_by goods_by cancels".split()),
        "decided_by": NOON + timedelta(days=7) if status == "awaiting_approval" else None,
    }


_CHOICES = [
    {"percent": bonus, "amount": some, "credit": some, "units": {"K1": n} if n else {}}
    for bonus, some, n in ((10, _USD, 0), (10, None, 1), (0, None, 1), (10, None, 0), (0, None, 0))
]
_CREDIT_IN_PART = dict.fromkeys(("credit", "part_credit", "returned_credit"), _PART)
_PROMISED = [
    *(_refund("approved", None) | {each: NOON} for each in ("pay_by", "goods_by", "cancels")),
    *(_refund(status, None) | {"credit": _PART} for status in ("approved", "paid")),
    *(_refund(status, _PART) | _CREDIT_IN_PART for status in ("approved", "failed")),
]


def _list_remedies() -> Iterator[dict[str, Any]]:
    for kind in RemedyKind:
        for status in RemedyStatus:
            remedy = {"kind": kind.value, "status": status.value, "due_at": NOON}
            remedy |= {"instructions": "1 Shop Street"}
            yield remedy | {"items": [{"name": "Kettle", "quantity": 2}]}
            yield remedy | {"items": []}


def _list_facts() -> Iterator[dict[str, Any]]:
    order = {"order_id": "W1001"}
    fresh, old = {"as_of": None}, {"as_of": NOON}
    for status in ("pending", "shipped", "delivered", "cancelled"):
        state = {"kind": "order", "status": status, "placed_at": NOON, "in_part": False}
        yield order | state | fresh | {"delivered_at": NOON if status == "delivered" else None}
    yield order | state | fresh | {"status": "pending", "in_part": True, "delivered_at": None}
    items = {"kind": "items", "items": [{"name": "Kettle", "quantity": 2}], "paid": _USD}
    yield from (order | items | fresh, order | items | old)
    for parcels, untold in ([_PARCELS[:1], 0], [_PARCELS, 1], [_PARCELS[-1:], 0]):
        yield order | {"kind": "parcels", "parcels": parcels, "more": untold} | fresh
    for change in ({}, {"is_open": False}, {"is_open": False, "accepted": True}):
        yield order | {"kind": "offer"} | _OFFER | change
    periods = [{"ends_at": NOON, "is_over": over, "items": ["Kettle"]} for over in (True, False)]
    for some in (periods[:1], periods[1:], periods):
        yield order | {"kind": "return_period", "periods": some} | fresh
    for refund_status, part_paid in _REFUND_STATES:
        refund = _refund(refund_status, part_paid)
        yield order | {"kind": "refund", "refunds": [refund], **_NO_MORE}
    yield from (order | {"kind": "refund", "refunds": [each], **_NO_MORE} for each in _PROMISED)
    yield from (order | {"kind": "store_credit"} | each for each in _CHOICES)
    for beside in _MORE:
        yield order | {"kind": "refund", "refunds": [], **beside}
    for reason in DeclineReason:
        told = {"reason": reason.value, "items": ["Mug"], "asked_for": "cancel", "in_part": False}
        yield order | {"kind": "declined", "declined": [told, told | {"asked_for": None}]}
    yield from (order | {"kind": "not_withdrawn", "status": each} for each in ("paid", "approved"))
    yield order | {"kind": "nothing_waits"}
    yield from (order | {"kind": "remedy", "remedies": [each]} for each in _list_remedies())
    for given_at in (None, NOON):
        yield order | {"kind": "goodwill", "percent": 10, "given_at": given_at}
    listed = [order | {"placed_at": NOON, "items": ["Kettle", "Mug"]}]
    for orders, left_out in ((listed, 0), (listed, 1), (listed, None), ([], 0)):
        yield {"kind": "my_orders", "orders": orders, "more": left_out} | fresh
    for order_id in ("W9999", None):
        yield {"kind": "no_order", "order_id": order_id}
    yield {"kind": "not_verified"}
    yield {"kind": "knowledge", "text": "Send items back within 30 days.\n\nhttps://shop.example"}
    yield {"kind": "support_address", "address": "support@shop.example"}


def list_samples(name: str) -> Iterator[dict[str, Any]]:
    """Yield facts of one mail: all; all but one, for each optional fact; only the required ones. Raises
    KeyError for a mail that does not exist."""
    full, missing = facts_of()[name], _WITHOUT.get(name, {})
    yield full
    for fact, value in missing.items():
        yield full | {fact: value}
    yield full | missing


def _payments(say: Say) -> list[dict[str, Any]]:
    return [
        {
            "method": method,
            "amount": amount,
            "reference": say("re_3Qx81Kd02"),
            "expected_days": expected_days,
        }
        for method, amount, expected_days in (
            ("card", Money(50_000, "USD"), 10),
            ("paypal", Money(20_000, "USD"), 1),
            ("store_credit", Money(10_000, "USD"), 0),
            ("bank_transfer", Money(20_000, "USD"), None),
            ("gift_card", _PART, None),
        )
    ]


def _receipt(say: Say) -> dict[str, Any]:
    return {
        "items": [{"name": say("Kettle"), "quantity": 1, "amount": Money(159_500, "USD")}],
        "shipping": Money(500, "USD"),
        "asked": Money(160_000, "USD"),
        "credit": None,
        "payments": _payments(say),
        "paid_at": NOON,
        "note": say("We are sorry for the trouble."),
    }


_EARLIER = {
    "order_id": "W0999",
    "amount": _PART,
    "state": "paid",
    "requested_at": NOON - timedelta(days=40),
    "closed_at": NOON - timedelta(days=39),
}


def _approval_request(say: Say) -> dict[str, Any]:
    return {
        "link_url": LINK,
        "manager_email": "mona@shop.example",
        "order_id": "W1001",
        "customer_name": say("Ada Example"),
        "customer_email": "ada@example.com",
        "customer_since": date(2024, 2, 29),
        "amount": _USD,
        "credit": Money(140_000, "USD"),
        "may_offer": True,
        "already_refunded": Money(0, "USD"),
        "paid": Money(150_000, "USD"),
        "items": [{"name": say("Kettle"), "quantity": 1, "amount": Money(129_400, "USD")}],
        "shipping": Money(500, "USD"),
        "reason": "it arrived damaged",
        "policy_reasons": ["The amount is above $1,000.00."],
        "withdraws": True,
        "delivered_at": NOON - timedelta(days=9),
        "order_status": "delivered",
        "earlier": [_EARLIER],
        "customer_text": say(_ASKED),
        "attachments": [say("crack.jpg")],
        "requested_at": NOON,
        "expires_at": NOON + timedelta(days=7),
        "first_approval": None,
        "short": Money(200, "USD"),
        "reminds_of": None,
        "others": [
            {
                "manager_email": "max@shop.example",
                "asked_at": NOON - timedelta(hours=5),
                "skipped_why": "an automatic answer came from them",
            }
        ],
        "following": "zoe@shop.example",
        "escalates_at": NOON + timedelta(days=2),
        "reply_decides": True,
        "notes": [
            {
                "manager_email": "max@shop.example",
                "written_at": NOON - timedelta(hours=4),
                "text": say("Have we not sent her a new filter in spring?"),
            }
        ],
    }


def _hand_over(say: Say) -> dict[str, Any]:
    return {
        "customer_name": say("Ada Example"),
        "customer_email": "ada@example.com",
        "answer_to": "case+abcdefghijklmnop@shop.example",
        "sender_verified": False,
        "conversation_id": "c_17",
        "page": "https://shop.example/ops/conversations/c_17",
        "why": "the customer asked for a person",
        "summary": say("Ada's kettle leaks after a month of use. She wants to talk to a person."),
        "mails": [
            {
                "from_customer": from_customer,
                "at": NOON - timedelta(hours=hours),
                "subject": say(subject),
                "text": say(text),
                "attachments": [say(each) for each in attachments],
            }
            for from_customer, hours, subject, text, attachments in (
                (True, 26, "My kettle", _ASKED, ["crack.jpg"]),
                (False, 25, "Re: My kettle", _ANSWER, []),
                (True, 1, "Re: My kettle", "Please let a person look at this.\n\nAda", []),
            )
        ],
        "refunds": [{"order_id": "W1001", "amount": _USD, "status": "paid", "requested_at": NOON}],
    }
