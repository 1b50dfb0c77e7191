"""Mail posted to an address or a host that we do not have: left with SendGrid until it is put right."""

from __future__ import annotations

import logging

from flask import Response, current_app, request
from werkzeug.exceptions import HTTPException

from mailagent.web.console.pages import not_found, page
from mailagent.web.webhooks.signature import SIGNATURE_HEADER

logger = logging.getLogger(__name__)

_WORDS = ("webhook", "sendgrid", "inbound")


def answer_refusal(error: HTTPException) -> Response | HTTPException:
    """Answer 503 where SendGrid's post is refused before any view: a 4xx would lose the mail."""
    path = request.path.lower()
    meant_for_a_webhook = SIGNATURE_HEADER in request.headers or any(w in path for w in _WORDS)
    if path.startswith("/ops") and error.code in (403, 404):
        return page("ops/refused.html", 403) if error.code == 403 else not_found("page")
    if request.method != "POST" or not meant_for_a_webhook or (error.code or 500) >= 500:
        return error
    logger.error(
        "a webhook was posted to %.200r: %s; answered 503. The addresses are: %s",
        request.path,
        error.name,
        ", ".join(_webhooks()) or "none in this role",
    )
    return Response(
        f"{error.name}: check the address of the webhook; the mail can be delivered again\n",
        503,
        mimetype="text/plain",
    )


def _webhooks() -> list[str]:
    rules = current_app.url_map.iter_rules()
    return sorted(rule.rule for rule in rules if rule.rule.startswith("/webhooks/"))
