"""An HTTP client for a shop's system that speaks JSON: with a deadline for the whole answer, a bounded body,
and no redirects. It raises SourceProblem for an unusable answer; the text names no customer and no key."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mailagent.adapters.http import retry_after_seconds, seconds_left, tls_context, within
from mailagent.domain.orders.source import OutOfTime, SourceProblem
from mailagent.domain.text import storable

if TYPE_CHECKING:
    import httpx2

DEADLINE_SECONDS = 10.0
MOST_BYTES = 4 * 1024 * 1024
_CONNECT_SECONDS = 3.0
_KEEP_ALIVE_SECONDS = 5.0
_WITHOUT_A_HINT_SECONDS = 30.0
_OUR_KEY = frozenset({401, 403, 407})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: `value` is its decoded JSON, fit to be stored, None for an empty body. Names of `headers` are
    in lower case."""

    status: int
    value: Any
    headers: Mapping[str, str]


class JsonClient:
    """The client of one system. Threads may share it; it connects when it is first used."""

    def __init__(
        self,
        title: str,
        base_url: str,
        headers: Mapping[str, str],
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._title = title
        self._base_url = base_url.rstrip("/")
        # Without compression, so that a small body cannot expand into a huge one.
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        self._deadline_seconds = deadline_seconds
        self._client: httpx2.Client | None = None
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        accept: Collection[int] = (),
    ) -> Answer:
        """Send one request and return its answer, if its status is 2xx or in `accept`. Raises SourceProblem."""
        import httpx2  # slow to import

        left = seconds_left()
        seconds = min(self._deadline_seconds, left)
        if seconds <= 0:
            raise OutOfTime(f"no time is left to ask {self._title}", not_done=True)
        content = {"params": params, "json": body, "headers": headers}
        sent = {name: value for name, value in content.items() if value is not None}
        try:
            status, found, data = within(seconds, lambda: self._request(method, path, sent))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as loss:
            why = f"{self._title} cannot be reached ({type(loss).__name__})"
            raise SourceProblem(why, not_done=True) from None
        except httpx2.RequestError as loss:
            raise self._problem(f"gave no complete answer ({type(loss).__name__})") from None
        except TimeoutError:
            why = f"{self._title} did not end its answer within {seconds:.3g} s"
            raise (OutOfTime if seconds == left else SourceProblem)(why) from None
        except (httpx2.InvalidURL, ValueError, OSError) as wrong:
            why = f"cannot be asked ({type(wrong).__name__}): check ORDER_SOURCE_URL and proxy variables"
            raise self._problem(why, operator=True) from None
        if not (200 <= status < 300 or status in accept):
            raise self._judge(status, found)
        return Answer(status, self._decode(data, status), found)

    def _request(
        self, method: str, path: str, sent: Mapping[str, Any]
    ) -> tuple[int, Mapping[str, str], bytes]:
        ends_at, data = time.monotonic() + self._deadline_seconds, bytearray()
        with self._connect().stream(method, f"{self._base_url}{path}", **sent) as response:
            for chunk in response.iter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise self._problem(f"sent more than {MOST_BYTES} bytes")
                if time.monotonic() > ends_at:
                    raise TimeoutError
            return response.status_code, dict(response.headers), bytes(data)

    def _connect(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(
                    headers=self._headers,
                    timeout=httpx2.Timeout(self._deadline_seconds, connect=_CONNECT_SECONDS),
                    verify=tls_context(),
                    limits=httpx2.Limits(keepalive_expiry=_KEEP_ALIVE_SECONDS),
                )
            return self._client

    def _judge(self, status: int, headers: Mapping[str, str]) -> SourceProblem:
        wait_seconds = retry_after_seconds(headers) or 0.0
        if status in _OUR_KEY:
            why = f"refuses us ({status}): check our token"
            return self._problem(why, operator=True, not_done=True)
        if 300 <= status < 400:
            why = f"answers with a redirect ({status}): set ORDER_SOURCE_URL to the target"
            return self._problem(why, operator=True)
        if status == 429:
            wait_seconds = wait_seconds or _WITHOUT_A_HINT_SECONDS
            return self._problem("limits our rate (429)", wait_seconds, not_done=True)
        return self._problem(f"answered {status}", wait_seconds)

    def _decode(self, data: bytes, status: int) -> Any:
        if not data.strip():
            return None
        try:
            return storable(json.loads(data))
        except (ValueError, RecursionError):
            if status >= 400:  # perhaps a proxy's page; the status is enough
                return None
            raise self._problem("answered with something that is not whole JSON") from None

    def _problem(
        self,
        why: str,
        retry_after_seconds: float = 0.0,
        *,
        operator: bool = False,
        not_done: bool = False,
    ) -> SourceProblem:
        return SourceProblem(
            f"{self._title} {why}", retry_after_seconds, operator=operator, not_done=not_done
        )
