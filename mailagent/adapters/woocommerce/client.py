"""WooCommerce's REST API v3: https://woocommerce.github.io/woocommerce-rest-api-docs/

Its errors are JSON with a `code`; their messages are in the shop's language.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from mailagent.adapters.order_sources.json_client import DEADLINE_SECONDS, Answer
from mailagent.adapters.platforms.calls import Caller
from mailagent.adapters.woocommerce.orders import TITLE
from mailagent.domain.orders.source import SourceProblem

_PATH = "/wp-json/wc/v3"
# The most that WordPress returns on one page.
REFUNDS_A_PAGE = 100


class WooCommerceClient:
    """Asks one shop. Threads may share it."""

    def __init__(self, url: str, token: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        """`token`: the consumer key and secret with a colon between them."""
        headers = {"Authorization": f"Basic {b64encode(token.encode()).decode()}"}
        self._caller = Caller(TITLE, url, headers, deadline_seconds)

    def list_orders(
        self, search: str, page: int, size: int, *, oldest_first: bool = False
    ) -> list[Mapping[str, Any]]:
        """Return a page of the orders that contain a text, newest first. Raises SourceProblem."""
        params = {"search": search, "page": str(page), "per_page": str(size)}
        params |= {"orderby": "date", "order": "asc" if oldest_first else "desc"}
        return self._list(self.send("GET", "/orders", params=params))

    def find_order(self, post_id: str) -> Mapping[str, Any] | None:
        """Return an order by WooCommerce's id, or None. Raises SourceProblem."""
        answer = self.send("GET", f"/orders/{post_id}")
        if answer.status == 404 and code_of(answer):
            return None
        return self._object(answer)

    def list_refunds(self, post_id: str) -> list[Mapping[str, Any]]:
        """Return all refunds of an order. Raises SourceProblem."""
        params = {"per_page": str(REFUNDS_A_PAGE)}
        found = self._list(self.send("GET", f"/orders/{post_id}/refunds", params=params))
        if len(found) >= REFUNDS_A_PAGE:
            why = f"order {post_id} of {TITLE} has too many refunds to tell ours"
            raise SourceProblem(why, not_done=True, answered=True)
        return found

    def change_order(self, post_id: str, **changes: str) -> Mapping[str, Any]:
        """Change an order and return it. Raises SourceProblem."""
        return self._object(self.send("POST", f"/orders/{post_id}", body=changes))

    def send(self, method: str, path: str, **content: Any) -> Answer:
        """Send one request and return its JSON answer, also if that is a refusal. Raises SourceProblem."""
        return self._caller.send(method, f"{_PATH}{path}", **content)

    def refusal(self, answer: Answer) -> SourceProblem:
        """Return the problem for an answer that refuses the request."""
        return self._caller.refusal(answer, code_of(answer))

    def _list(self, answer: Answer) -> list[Mapping[str, Any]]:
        found = answer.value
        if answer.status != 200 or not isinstance(found, list):
            raise self.refusal(answer)
        if not all(isinstance(each, dict) for each in found):
            raise SourceProblem(f"{TITLE} listed what is no record", answered=True)
        return found

    def _object(self, answer: Answer) -> Mapping[str, Any]:
        if answer.status != 200 or not isinstance(answer.value, dict) or "id" not in answer.value:
            raise self.refusal(answer)
        return answer.value


def code_of(answer: Answer) -> str:
    """Return the code of an error; empty if the answer does not come from WordPress."""
    code = answer.value.get("code") if isinstance(answer.value, dict) else None
    return code if isinstance(code, str) else ""
