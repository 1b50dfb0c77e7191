"""A payment gateway, a mail provider and an order source from outside the package, to show what registering one
takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from werkzeug.datastructures import Headers

from mailagent.adapters.mime.attachment import AttachmentBytes
from mailagent.domain.mail.delivery import Accepted, DeliveryEvent, DeliveryKind, SendOutcome, Trace
from mailagent.domain.mail.message import Identity, MailKind, OutboundMail, ParsedMail
from mailagent.domain.orders.source import (
    AddressOutcome,
    CancelOutcome,
    CancelRequest,
    NotSupported,
    OrderPage,
    SourceProblem,
)
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import (
    GatewayEvent,
    GatewayRefund,
    NotDone,
    PaymentOutcome,
    Refunded,
    RefundRequest,
)
from mailagent.domain.remedies.address import NewAddress
from mailagent.domain.shop import ShopAddresses
from mailagent.settings import Settings


class ToyGateway:
    """Pays at once, and knows each key again. `fault`: what it answers instead of paying."""

    name = "toy"
    title = "Toy Bank"
    key_setting = "TOY_KEY"
    secret_setting = "TOY_SECRET"
    failure_codes: ClassVar[Mapping[str, str]] = {"toy_box_empty": "the toy box is empty"}

    def __init__(self) -> None:
        self.paid: dict[str, RefundRequest] = {}
        self.fault: PaymentOutcome | None = None

    def has_payment(self, payment_id: str) -> bool:
        return payment_id.startswith("toy_")

    def make(self, _settings: Settings) -> ToyGateway:
        return self

    def make_webhook(self, _settings: Settings) -> ToyGateway:
        return self

    def find_problems(self, _settings: Settings) -> list[str]:
        return []

    def is_remote(self, request: RefundRequest) -> bool:
        return self.has_payment(request.payment_id) and request.credit is None

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        if self.fault is not None:
            return self.fault
        self.paid.setdefault(request.idempotency_key, request)
        return Refunded(f"toy-{request.refund_id}")

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        known = request.idempotency_key in self.paid
        return Refunded(f"toy-{request.refund_id}") if known else NotDone("never asked", 0)

    def list_refunds(self, _payment_id: str) -> Sequence[GatewayRefund]:
        return []

    def can_verify(self, headers: Headers) -> bool:
        return "Toy-Secret" in headers

    def verify(self, headers: Headers, _body: bytes, _now: datetime) -> bool:
        return headers.get("Toy-Secret") == "open sesame"

    def parse_event(self, body: bytes) -> GatewayEvent:
        return GatewayEvent(json.loads(body)["id"], "toy.news", datetime.now(UTC))


class ToyMail:
    """Mail as JSON. `fault`: what it answers instead of sending."""

    name = "toymail"
    title = "Toy Mail"
    key_setting = "TOY_MAIL_KEY"
    inbound_key_setting = events_key_setting = "TOY_MAIL_PASSWORD"

    def __init__(self) -> None:
        self.sent: list[OutboundMail] = []
        self.fault: SendOutcome | None = None
        self.has_key = True

    def inbound_keys(self, _settings: Settings) -> Sequence[str]:
        return ("signed",)

    events_keys = inbound_keys

    def make_sender(self, _settings: Settings) -> ToyMail | None:
        return self if self.has_key else None

    def send(self, mail: OutboundMail) -> SendOutcome:
        if self.fault is not None:
            return self.fault
        self.sent.append(mail)
        return Accepted(f"toy-{len(self.sent)}")

    def find_trace(self, _outbound_id: str) -> Trace:
        return Trace.NOT_ASKED

    def looks_like_ours(self, headers: Headers) -> bool:
        return "Toy-Signature" in headers

    def signed_at(self, _headers: Headers) -> None:
        return None  # a password, and no time

    def can_verify(self, headers: Headers) -> bool:
        return self.looks_like_ours(headers)

    def verify(self, keys: Sequence[str], headers: Headers, body: Iterable[bytes]) -> bool:
        for _piece in body:
            pass
        return headers.get("Toy-Signature") in keys

    def parse_mail(
        self, _content_type: str, body: bytes, shop: ShopAddresses, _received_at: datetime
    ) -> ParsedMail:
        said = json.loads(body)
        return ParsedMail(
            from_address=said["from"],
            from_name="",
            envelope_from=said["from"],
            envelope_to=(shop.support_address,),
            subject=said["subject"],
            message_id=said["id"],
            in_reply_to=(),
            references=(),
            sent_at=None,
            body=said["text"],
            new_text=said["text"],
            identity=Identity.DKIM,
            kind=MailKind.CUSTOMER,
            dedup_key=said["id"],
        )

    def find_attachment(
        self, _content_type: str, _body: bytes, _number: int
    ) -> AttachmentBytes | None:
        return None

    def parse_events(self, body: bytes) -> Sequence[DeliveryEvent]:
        said = json.loads(body)
        at = datetime.now(UTC)
        return [
            DeliveryEvent(said["mail"], DeliveryKind.DELIVERED, None, at, key=f"toy:{said['mail']}")
        ]


class ToyOrders:
    """Orders in a dictionary. `fault`: what it raises instead of answering."""

    name = "toyorders"
    title = "Toy Orders"
    key_setting = "TOY_ORDERS_KEY"

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}
        self.fault: SourceProblem | None = None

    def make(self, _settings: Settings) -> ToyOrders:
        return self

    def find_missing_rights(self, _settings: Settings) -> list[str]:
        return []

    def find_orders(self, email: str, _cursor: str | None = None) -> OrderPage:
        if self.fault:
            raise self.fault
        return OrderPage(tuple(o for o in self.orders.values() if o.customer_email == email))

    def load_order(self, order_id: str) -> Order | None:
        if self.fault:
            raise self.fault
        return self.orders.get(order_id)

    def cancel_order(self, _request: CancelRequest) -> CancelOutcome:
        return NotSupported("toys are not cancelled")

    def change_address(self, _order_id: str, _wanted: NewAddress) -> AddressOutcome:
        return NotSupported("toys are not sent")
