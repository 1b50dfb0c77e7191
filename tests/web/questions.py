"""A refund that waits for a manager, and how the manager answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundReason, RefundStatus
from mailagent.mailers import to_managers
from mailagent.mailers.approval_routing import load_routing
from mailagent.store.refunds import approvals, external_refunds, refunds
from tests.cast import MONA, big_order
from tests.harness import Harness


def ask(asked: Question, manager: str = MONA) -> Any:
    """Ask a manager; return the row of the mail."""
    with asked.shop.live.database.transaction() as connection:
        refund = refunds.load(connection, asked.refund_id)
        routing = load_routing(connection, refund)
        written, _ = to_managers.write_request(connection, refund, manager, routing)
    (mail,) = asked.shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=written)
    return mail


def hidden_fields(page: str, *names: str) -> dict[str, str]:
    """Return what a page's form sends back of what it showed."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: value for name, value in found if name in names}


AMOUNT = Money(1_499_00, "USD")


@dataclass
class Question:
    """A refund that waits for Mona."""

    shop: Harness
    refund_id: str
    approval_id: str

    def link(self, manager: str = MONA) -> str:
        return self.shop.live.links.sign_approval(self.approval_id, manager).replace(
            self.shop.live.shop.public_url, ""
        )

    def refund(self) -> Refund:
        with self.shop.live.database.snapshot() as connection:
            return refunds.load(connection, self.refund_id)

    def let_decisions_wait(self, seconds: int = 300) -> None:
        """Have decisions no effect for so long, so that they can be taken back."""
        live = services.current()
        waits = replace(live.waits, approval_undo_seconds=seconds)
        services.bind(replace(live, waits=waits))

    def decide(
        self,
        decision: str = "approve",
        manager: str = MONA,
        form: Mapping[str, str] = MappingProxyType({}),
    ) -> TestResponse:
        client = self.shop.client
        page = client.get(self.link(manager)).text
        told = {"decision": decision, **hidden_fields(page, "csrf_token", "refunded_elsewhere")}
        return client.post(self.link(manager), data=told | dict(form))

    def token(self, manager: str = MONA) -> tuple[FlaskClient, str]:
        """Open the page; return the browser that has it open, and the token in its form."""
        client = self.shop.client
        found = re.search(r'name="csrf_token" value="([^"]+)"', client.get(self.link(manager)).text)
        assert found is not None
        return client, found[1]

    def press(
        self,
        opened: tuple[FlaskClient, str],
        decision: str,
        manager: str = MONA,
        form: Mapping[str, str] = MappingProxyType({}),
    ) -> TestResponse:
        """Press a button of a page that was opened before."""
        client, token = opened
        data = {"decision": decision, "csrf_token": token} | dict(form)
        return client.post(self.link(manager), data=data)


def refund_elsewhere(question: Question, minor: int) -> None:
    """Have the gateway report a refund of part of the desk, made in its dashboard."""
    told = GatewayRefund("re_9", "stripe", ("pay_W2001",), Money(minor, "USD"), RefundState.SETTLED)
    with question.shop.live.database.transaction() as connection:
        external_refunds.record(connection, told, "W2001", "pay_W2001", question.shop.live.now())


def paid(refund: Refund) -> Refund:
    """Return a refund as it is once it is paid, for its receipt."""
    return replace(refund, paid_at=refund.requested_at)


def record_refund(
    shop: Harness, mail: Any, order_id: str = "W2001", refund_id: str = "refund_1", days: int = 7
) -> str:
    """Let the refund that a mail asks for wait for a manager; return the id of its approval."""
    now = shop.live.now()
    refund = Refund(
        refund_id=refund_id,
        order_id=order_id,
        conversation_id=mail.conversation_id,
        mail_id=mail.mail_id,
        amount=AMOUNT,
        lines=(RefundLine(1, 1, AMOUNT),),
        item_ids=("D1",),
        reason=RefundReason.DAMAGED,
        status=RefundStatus.AWAITING_APPROVAL,
        requested_at=now,
        policy_reasons=("above_limit",),
    )
    with shop.live.database.transaction() as connection:
        refunds.record(connection, refund, f"key_{refund_id}", {})
        approval = approvals.request(connection, refund_id, now, now + timedelta(days=days))
        shop.live.workflow_client.queue.enqueue_refund(connection, refund_id, None)
    return approval.approval_id


@pytest.fixture
def question(shop: Harness) -> Question:
    shop.stock(big_order())
    shop.write("My desk <script>alert(1)</script> W2001 wobbles. See https://evil.example/x")
    (mail,) = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    return Question(shop, "refund_1", record_refund(shop, mail))


def everything(shop: Harness) -> list[object]:
    """Return every row that a GET could change."""
    tables = ("refunds", "approvals", "decisions", "audit", "outbound_mails", "orders")
    return [shop.rows(f"SELECT * FROM {table}") for table in tables]


@pytest.fixture
def dear(question: Question) -> Question:
    """A question that needs two managers."""
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET four_eyes = true"))
    return question
