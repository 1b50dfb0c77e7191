"""Mistyped webhook addresses: the mail must stay with SendGrid, and the log says what is right."""

from __future__ import annotations

import pytest

from mailagent.demo.fakes.webhooks import CONTENT_TYPE, build_body
from tests.harness import Harness, letter


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/sendgrid/inbuond",
        "/webhooks/sendgrid",
        "/webhooks/",
        "/webhooks",
        "//webhooks/sendgrid/inbound",
        "/webhooks//sendgrid/inbound",
        "/webhooks/sendgrid/inbound//",
        "/webhooks/sendgrid/inbound/x",
        "/Webhooks/SendGrid/Inbound",
        "/webhook/sendgrid/inbound",
        "/mail/sendgrid",
        "/webhooks/%00%ff",
        "/",
    ],
)
def test_a_mistyped_webhook_leaves_the_mail_with_sendgrid(
    shop: Harness, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = build_body(letter("Hello"))
    response = shop.client.open(
        path=path,
        method="POST",
        base_url="http://localhost",
        data=body,
        content_type=CONTENT_TYPE,
        headers=shop.inbound_key.sign(body),
    )
    assert response.status_code == 503
    assert "check the address of the webhook" in response.text
    assert "/webhooks/sendgrid/events, /webhooks/sendgrid/inbound" in caplog.text


@pytest.mark.parametrize("host", ["x" * 300, "a..b", ".shop.test"])
def test_a_host_that_cannot_be_read_leaves_the_mail_with_sendgrid(shop: Harness, host: str) -> None:
    body = build_body(letter("Hello"))
    headers = {"Host": host, **shop.inbound_key.sign(body)}
    assert shop.post_inbound(body, headers=headers).status_code in (200, 503)
    assert shop.client.get("/healthz", headers={"Host": host}).status_code in (200, 400)


def test_an_unsigned_post_to_a_mistyped_webhook_is_left_with_sendgrid_too(shop: Harness) -> None:
    assert shop.client.post("/webhooks/sendgrid/inbuond").status_code == 503


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/webhooks/x"), ("GET", "/"), ("POST", "/nowhere"), ("GET", "//")]
)
def test_whatever_else_does_not_exist_is_not_found(shop: Harness, method: str, path: str) -> None:
    assert shop.client.open(path, method=method).status_code == 404
