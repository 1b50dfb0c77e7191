"""Shopify's GraphQL Admin API, https://shopify.dev/docs/api/admin-graphql.

Errors come in bodies with status 200. An app of the Dev Dashboard has no permanent token: it requests one with
its client id and secret, and a new one before that expires after a day.
https://shopify.dev/docs/apps/build/authentication-authorization/client-credentials-grant
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from mailagent.adapters.http import within_reason
from mailagent.adapters.order_sources.json_client import DEADLINE_SECONDS, Answer
from mailagent.adapters.platforms.calls import Caller
from mailagent.adapters.shopify.orders import TITLE
from mailagent.domain.orders.source import SourceProblem

VERSION = "2026-10"

_PATH = f"/admin/api/{VERSION}/graphql.json"
_TOKEN_PATH = "/admin/oauth/access_token"  # noqa: S105 - an address
_RENEWED_BEFORE_SECONDS = 300.0
# https://shopify.dev/docs/api/usage/response-codes: the store is frozen, does not exist, or is locked.
_STORE_STATUSES = frozenset({402, 404, 423})
# https://shopify.dev/docs/api/admin-graphql#status_and_error_codes
_THROTTLED, _DENIED = "THROTTLED", "ACCESS_DENIED"
# Words in Shopify's errors about a key that another request is using, or has used for something else.
# https://shopify.dev/docs/api/usage/implementing-idempotency
_KEY_IN_USE = ("currently in progress", "same idempotency key")
_CODE = re.compile(r"[A-Za-z_]{1,60}")
_NOT_RUN = frozenset({"MAX_COST_EXCEEDED", "BAD_REQUEST"})


class ShopifyClient:
    """Runs queries. Threads may share it."""

    def __init__(self, url: str, token: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        """`token`: a permanent one, or an app's client id and secret with a colon between them."""
        self._caller = Caller(TITLE, url, {}, deadline_seconds)
        self._client_id, self._is_app, self._secret = token.partition(":")
        self._token: tuple[str, float] = ("", 0.0)

    def run(self, query: str, /, **variables: object) -> dict[str, Any]:
        """Return the data of a query or mutation. Raises SourceProblem."""
        answer = self._post(query, variables)
        if answer.status == 401 and self._is_app:
            self._token = ("", 0.0)  # it was revoked, so the query did not run
            answer = self._post(query, variables)
        return self._data(answer)

    def _post(self, query: str, variables: Mapping[str, object]) -> Answer:
        headers = {"X-Shopify-Access-Token": self._find_token()}
        content = {"query": query, "variables": dict(variables)}
        return self._caller.send("POST", _PATH, headers=headers, body=content)

    def _find_token(self) -> str:
        if not self._is_app:
            return self._client_id
        token, until = self._token
        if time.monotonic() >= until:
            token, seconds = self._ask_for_token()
            self._token = (token, time.monotonic() + seconds - _RENEWED_BEFORE_SECONDS)
        return token

    def _ask_for_token(self) -> tuple[str, float]:
        body = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": self._secret,
        }
        try:
            answer = self._caller.send("POST", _TOKEN_PATH, body=body)
            return str(answer.value["access_token"]), float(answer.value["expires_in"])
        except SourceProblem as problem:
            problem.not_done = True
            raise
        except (KeyError, TypeError, ValueError):
            refusal = self._caller.refusal(answer, "to our request for a token")
            refusal.not_done = True
            refusal.operator = 400 <= answer.status < 500 and answer.status != 429
            raise refusal from None

    def _data(self, answer: Answer) -> dict[str, Any]:
        body = answer.value if isinstance(answer.value, dict) else {}
        errors, codes = body.get("errors"), _codes(body.get("errors"))
        if answer.status == 200 and not errors and isinstance(body.get("data"), dict):
            return dict(body["data"])
        if _THROTTLED in codes:
            raise SourceProblem(f"{TITLE} limits our rate", _restored_after(body), not_done=True)
        if answer.status == 200 and errors:
            raise _query_problem(errors, codes)
        if answer.status in _STORE_STATUSES:
            why = f"{TITLE} answered {answer.status}: look whether the store is open"
            raise SourceProblem(why, not_done=True, operator=True)
        raise self._caller.refusal(answer)


def is_denied(words: str) -> bool:
    """Return whether an error means that our token has no access scope for what we asked."""
    return _DENIED in words


def is_in_use(words: str) -> bool:
    """Return whether an error means that the idempotency key may have been used: then look the refund up."""
    return any(sign in words for sign in _KEY_IN_USE)


def _query_problem(errors: object, codes: set[str]) -> SourceProblem:
    """Return the problem of a query that failed. Only errors with these codes mean that nothing ran; others may
    come after a mutation had its effect."""
    found = _listed(errors)
    denied = _DENIED in codes and all(len(each.get("path") or ()) < 2 for each in found)
    # Only the codes: the messages may repeat our query, such as a customer's address.
    known = ", ".join(sorted(code for code in codes if _CODE.fullmatch(code))) or "no code"
    return SourceProblem(
        f"{TITLE} answered with an error ({known})",
        not_done=denied or bool(codes & _NOT_RUN),
        operator=_DENIED in codes,
        answered=_DENIED not in codes,
    )


def _listed(errors: object) -> list[Mapping[str, Any]]:
    return [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []


def _codes(errors: object) -> set[str]:
    found = (each.get("extensions") for each in _listed(errors))
    return {str(each["code"]) for each in found if isinstance(each, dict) and each.get("code")}


def _restored_after(body: Mapping[str, Any]) -> float:
    """Return after how many seconds we have enough points for the query.
    https://shopify.dev/docs/api/usage/limits"""
    try:
        cost = body["extensions"]["cost"]
        status = cost["throttleStatus"]
        missing = float(cost["requestedQueryCost"]) - float(status["currentlyAvailable"])
        return max(1.0, within_reason(missing / float(status["restoreRate"])) or 1.0)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return 1.0
