"""Verifies SendGrid's signature, and decides between 403 and 503.

SendGrid discards mail on any 4xx and retries for three days on a 5xx. So a bad signature gets 403 only once a
good one was seen; before that our own key may be the wrong one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flask import Request, Response, current_app, request
from werkzeug.exceptions import HTTPException

from mailagent import services
from mailagent.adapters.sendgrid.signature import can_verify, verify
from mailagent.domain.mail.webhook import age_seconds, is_fresh
from mailagent.web.console.page import not_found, page
from mailagent.web.webhooks.body import spooled

logger = logging.getLogger(__name__)

SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"


# What SendGrid signs in our future was signed by another clock; what is old may only have waited.
AHEAD_SECONDS, BEHIND_SECONDS = 5, 300


# In the environ of a request whose signature was good.
VERIFIED = "mailagent.verified"


class Refused(Exception):
    """A request whose signature is not good; what to answer."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.words, self.status = words, status


class SignatureDoor:
    """One webhook's door. Without keys it is open, which production settings do not allow."""

    def __init__(self, webhook: str) -> None:
        self._webhook = webhook
        self._verified_with: tuple[str, ...] = ()
        self._clocks_differ = False

    @contextmanager
    def receive(self, request: Request, keys: Sequence[str]) -> Iterator[bytes]:
        """Give the bytes of a request whose signature is good. Raises Refused, NotWhole and Busy."""
        signature = request.headers.get(SIGNATURE_HEADER, "")
        timestamp = request.headers.get(TIMESTAMP_HEADER, "")
        if keys and not can_verify(timestamp, signature):
            raise self._refusal(signature, keys)
        with spooled(request) as body:
            good = verify(keys, timestamp, signature, body.pieces())
            if keys and not good:
                raise self._refusal(signature, keys)
            if keys:
                self._verified_with = tuple(keys)
                self._compare_clocks(timestamp)
                self._refuse_by_age(timestamp)
                request.environ[VERIFIED] = True
            with body.whole() as whole:
                yield whole

    def _refusal(self, signature: str, keys: Sequence[str]) -> Refused:
        reason = "the signature is wrong" if signature else "there is no signature"
        seen = self._verified_with == tuple(keys)
        logger.error(
            "%s webhook: %s; answered %s. If this is SendGrid, compare its verification key with "
            "the setting.",
            self._webhook,
            reason,
            403 if seen else 503,
        )
        if seen:
            return Refused(f"{reason}: this request does not come from our mail provider\n", 403)
        return Refused(
            f"{reason}, and no request has been verified since the start: check the verification key "
            "in the settings; the mail can be delivered again\n",
            503,
        )

    def _refuse_by_age(self, timestamp: str) -> None:
        """Raise Refused for a good signature that is too old, or of the future.

        Never 4xx: it may be honest mail that waited at SendGrid, or our own clock that is wrong.
        """
        live = services.current()
        now, most = live.now(), live.webhook_hours
        if is_fresh(timestamp, now, most):
            return
        logger.error(
            "%s webhook: signed at %s, by our clock it is %.0f, a difference of %s s; at most %d hours are "
            "taken; answered 503. If SendGrid delivers after an outage, raise WEBHOOK_HOURS; else compare "
            "the clock of the database's machine.",
            self._webhook,
            timestamp,
            now.timestamp(),
            age_seconds(timestamp, now),
            most,
        )
        words = f"signed more than {most} hours ago, or in the future; deliver it again\n"
        raise Refused(words, 503)

    def _compare_clocks(self, timestamp: str) -> None:
        """Log once that SendGrid's clock and ours differ, by the time at which it signed."""
        age = age_seconds(timestamp, services.current().now())
        if age is None:
            return
        ahead = -age
        differ = not -BEHIND_SECONDS <= ahead <= AHEAD_SECONDS
        if differ and not self._clocks_differ:
            logger.warning(
                "%s webhook: by SendGrid's clock it is %d s %s than by ours: is the time service (NTP)"
                " of the database's machine at work?",
                self._webhook,
                abs(ahead),
                "later" if ahead > 0 else "earlier",
            )
        self._clocks_differ = differ


# --- wrong address --------------------------------------------------------------------------------


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
