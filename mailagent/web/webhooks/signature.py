"""Verifies the mail provider's signature.

A mail provider discards mail after any 4xx and retries after a 5xx. We respond to a bad signature with 403 only
after we have seen a good one; before that with 503, because our own key may be wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

from flask import Request, Response, current_app, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from mailagent import services
from mailagent.adapters.mail_providers import MailProvider
from mailagent.domain.mail.webhook import age_seconds, is_fresh
from mailagent.web.console.page import not_found, page
from mailagent.web.errors import answer_error, is_console
from mailagent.web.webhooks.body import MEMORY_BYTES, HttpRefusal, copied, read_pieces, whole

logger = logging.getLogger(__name__)

# Tolerances of `_compare_clocks`. An old signature may only mean that the request waited; one in the future
# means that a clock is wrong.
AHEAD_SECONDS, BEHIND_SECONDS = 5, 300

# The key in the WSGI environ that marks a verified request.
VERIFIED = "mailagent.verified"


class SignatureDoor:
    """Verifies the requests of one webhook. Without keys it accepts every request; production does not allow
    that."""

    def __init__(self, provider: MailProvider, webhook: str) -> None:
        self._provider = provider
        self._webhook = webhook
        self._verified_with: tuple[str, ...] = ()
        self._clocks_differ = False

    @contextmanager
    def receive(self, request: Request, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the bytes of a verified request. Raises HttpRefusal, NotWhole and Busy."""
        headers, provider = request.headers, self._provider
        if keys and not provider.can_verify(headers):
            raise self._refusal(headers, keys)
        with SpooledTemporaryFile(MEMORY_BYTES) as file:
            good = provider.verify(keys, headers, copied(read_pieces(request), file))
            if keys and not good:
                raise self._refusal(headers, keys)
            if keys:
                self._verified_with = tuple(keys)
                if (timestamp := provider.signed_at(headers)) is not None:
                    self._compare_clocks(timestamp)
                    self._refuse_by_age(timestamp)
                request.environ[VERIFIED] = True
            with whole(file) as body:
                yield body

    def _refusal(self, headers: Headers, keys: Sequence[str]) -> HttpRefusal:
        signed = self._provider.looks_like_ours(headers)
        reason = "the signature is wrong" if signed else "there is no signature"
        seen = self._verified_with == tuple(keys)
        logger.error(
            "webhook=%s event=signature_refused: %s; answered %s. If this is %s, compare its verification "
            "key with the setting.",
            self._webhook,
            reason,
            403 if seen else 503,
            self._provider.title,
        )
        if seen:
            return HttpRefusal(
                f"{reason}: this request does not come from our mail provider\n", 403
            )
        return HttpRefusal(
            f"{reason}, and no request has been verified since the start: check the verification key "
            "in the settings; the mail can be delivered again\n",
            503,
        )

    def _refuse_by_age(self, timestamp: str) -> None:
        """Raise HttpRefusal for a valid signature that is too old, or in the future.

        It is never a 4xx, because the mail may have waited at the provider, or our clock may be wrong.
        """
        live = services.current()
        now, most = live.now(), live.webhook_hours
        if is_fresh(timestamp, now, most):
            return
        logger.error(
            "webhook=%s event=signature_old: signed at %s, by our clock it is %.0f, a difference of %s s; "
            "at most %d hours are taken; answered 503. If %s delivers after an outage, raise WEBHOOK_HOURS; "
            "else compare the clock of the database's machine.",
            self._webhook,
            timestamp,
            now.timestamp(),
            age_seconds(timestamp, now),
            most,
            self._provider.title,
        )
        words = f"signed more than {most} hours ago, or in the future; deliver it again\n"
        raise HttpRefusal(words, 503)

    def _compare_clocks(self, timestamp: str) -> None:
        """Log once if the signature's time shows that the provider's clock and ours differ."""
        age = age_seconds(timestamp, services.current().now())
        if age is None:
            return
        ahead = -age
        differ = not -BEHIND_SECONDS <= ahead <= AHEAD_SECONDS
        if differ and not self._clocks_differ:
            logger.warning(
                "webhook=%s event=clocks_differ: by %s's clock it is %d s %s than by ours: is the time "
                "service (NTP) of the database's machine at work?",
                self._webhook,
                self._provider.title,
                abs(ahead),
                "later" if ahead > 0 else "earlier",
            )
        self._clocks_differ = differ


# --- wrong address --------------------------------------------------------------------------------


def answer_refusal(error: HTTPException) -> Response:
    """Return the response to a request that failed. A request below a webhook's path that reaches no view gets
    503, because after a 4xx the mail would be lost."""
    path, provider = request.path.lower(), services.current().mail_provider
    words = ("webhook", "inbound", provider.name)
    meant_for_a_webhook = provider.looks_like_ours(request.headers) or any(w in path for w in words)
    if is_console() and error.code in (403, 404):
        return page("ops/refused.html", 403) if error.code == 403 else not_found("page")
    if request.method != "POST" or not meant_for_a_webhook or (error.code or 500) >= 500:
        return answer_error(error)
    logger.error(
        "event=wrong_address: a webhook was posted to %.200r: %s; answered 503. The addresses are: %s",
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
