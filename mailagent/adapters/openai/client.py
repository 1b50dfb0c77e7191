"""Calls the model through the OpenAI SDK: OpenAI's Responses API, or another server that has this API.

It returns JSON data, also for errors, because a recorded step cannot store openai's exceptions. The workflow
decides when to retry.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mailagent.adapters.http import SHARE, retry_after_seconds, within
from mailagent.adapters.openai.responses import operator, person, read_answer, retry
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.text import storable

if TYPE_CHECKING:
    import httpx2
    import openai

Json = dict[str, Any]

# Enough for a long reply and its reasoning, which also counts as output.
MAX_OUTPUT_TOKENS = 8_000
_CONNECT_SECONDS = 5.0

_TRY_AGAIN = frozenset({408, 409, 425, 429})
_ABOUT_THIS_MAIL = frozenset({400, 413, 422})
# 429 and 400 mostly concern one call. With these codes every call fails until an operator acts.
_OPERATOR_CODES = frozenset(
    "model_not_found unsupported_parameter unknown_parameter unsupported_value"
    " invalid_function_parameters insufficient_quota billing_not_active"
    " billing_hard_limit_reached account_deactivated"
    " organization_spend_limit_exceeded project_spend_limit_exceeded invalid_api_key".split()
)
_TOO_LONG = frozenset(
    {
        "context_length_exceeded",
        "string_above_max_length",
        "exceed_context_size_error",  # llama.cpp
    }
)
# "Request too large for gpt-… on tokens per min (TPM): Limit 30000, Requested 31000." If the limit is only used
# up for the moment, ", Used 29000" stands between the two.
_LIMIT_AND_REQUEST = re.compile(
    r"Limit:? ([0-9][0-9,]{0,14})\b.{0,40}?Requested:? ([0-9][0-9,]{0,14})\b"
)
# Fields that a server may not know, each with words by which we recognise its refusal. `store` is not among
# them: we always send it, else OpenAI would keep every mail.
_DISPENSABLE: Mapping[str, tuple[str, ...]] = {
    "include": ("encrypted content is not supported", "reasoning.encrypted_content"),
    "prompt_cache_key": ("prompt_cache_key",),
    "safety_identifier": ("safety_identifier",),
    "text": ("text.format", "json_schema", "response_format"),
}


class ChatModel:
    """Asks the model. Threads may share it. The first call imports the SDK."""

    def __init__(
        self, api_key: str, base_url: str | None, model: str, timeout_seconds: float = 60
    ) -> None:
        """Raises ValueError for an invalid key or URL.

        `base_url`: ends in /v1; None for OpenAI's own. `timeout_seconds`: for each read; a whole answer may
        take 1.5 times as long.
        """
        if not re.fullmatch(r"[!-~]+", api_key):
            raise ValueError("OPENAI_API_KEY is empty or has a space or odd character in it")
        if base_url and not re.match(r"https?://[^/\s]+", base_url):
            raise ValueError(f"OPENAI_BASE_URL is {base_url!r}; write https://host/v1")
        self._api_key = api_key
        self._base_url = base_url or None
        self._model = model
        self._read_seconds = timeout_seconds
        self._whole_seconds = timeout_seconds * SHARE
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()
        self._left_out: frozenset[str] = frozenset()

    def ask(
        self,
        instructions: str,
        items: Sequence[Json],
        tools: Sequence[Json],
        cache_key: str,
        customer_hash: str,
        text: Json | None = None,
    ) -> Json:
        """Return the model's answer to `items`, or what to do instead, as plain JSON data. One of:

        - `{"kind": "done", "items", "text", "calls", "usage"}`: put `items`, unchanged, before the next ask
        - `{"kind": "retry", "after_seconds", "why"}`: see `responses.retry`
        - `{"kind": "operator", "why"}`: no call works until an operator acts
        - `{"kind": "person", "reason", "why"}`: `reason` is the name of a HandOverReason

        All have `model`, its name; most have `usage`, the tokens. `why` holds nothing of the mail or the key.
        `customer_hash`: at most 64 characters. `text`: the format of the last answer.
        """
        core: Json = {
            "model": self._model,
            "instructions": instructions,
            "input": storable(list(items)),
            "store": False,  # the API's default is to keep everything for 30 days
            "max_output_tokens": MAX_OUTPUT_TOKENS,
        }
        if tools:
            core |= {"tools": list(tools), "parallel_tool_calls": False}
        extras = {
            **({"text": text} if text else {}),
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": cache_key,
            "safety_identifier": customer_hash,
        }
        left_out = self._left_out
        while True:
            kept = {name: value for name, value in extras.items() if name not in left_out}
            outcome, refused = self._send(core, kept)
            if not refused:
                if outcome["kind"] == "done":
                    self._left_out = left_out
                return outcome | {"model": self._model}
            left_out |= refused

    def _send(self, core: Json, extras: Json) -> tuple[Json, frozenset[str]]:
        """Return the outcome of one request, and which of `extras` the server does not know."""
        import openai

        try:
            # Plain JSON instead of the SDK's objects: local servers omit or add fields, and items must go back
            # exactly as they came.
            response = self._post(core | extras)
        except openai.APIStatusError as error:
            refused = _refused_extras(error, extras)
            return self._judge_status(error), refused
        except openai.APITimeoutError:
            why = f"the model did not answer within {self._read_seconds:g} s"
            return retry(why), frozenset()
        except openai.APIConnectionError:
            why = "the model's server could not be reached, or broke the connection off"
            return retry(why), frozenset()
        except TimeoutError:
            why = f"the model did not end its answer within {self._whole_seconds:g} s"
            return retry(why), frozenset()
        except (openai.OpenAIError, ValueError, OSError, ImportError) as error:
            # The SDK raises this before it sends anything, such as for a wrong variable that only the SDK
            # reads.
            why = f"the request cannot be made ({type(error).__name__})"
            return operator(
                f"{why}; check the OPENAI_…, SSL_CERT_… and proxy variables"
            ), frozenset()
        return read_answer(response.content, len(core["input"])), frozenset()

    def _post(self, body: Json) -> httpx2.Response:
        import httpx2  # the SDK's own HTTP client

        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            client = self._client
        return within(
            self._whole_seconds,
            lambda: client.post("/responses", body=body, cast_to=httpx2.Response),
        )

    def _make_client(self) -> openai.OpenAI:
        """Return the SDK's client: up to 1,000 connections; idle ones are closed after 5 seconds."""
        import openai

        # At DEBUG the SDK logs each request with the whole mail.
        logging.getLogger("openai").setLevel(logging.INFO)
        return openai.OpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            timeout=openai.Timeout(self._read_seconds, connect=_CONNECT_SECONDS),
            max_retries=0,
        )

    def _judge_status(self, error: openai.APIStatusError) -> Json:
        status, code = error.status_code, _code(error)
        why = f"the model's server answered {status}{f' {code}' if code else ''}"
        if code in _OPERATOR_CODES:
            what = "OPENAI_API_KEY" if status == 401 or code == "invalid_api_key" else "the account"
            told = f"{why}; check {what} and OPENAI_MODEL={self._model}"
            return operator(told)
        if status == 429 and _is_above_the_limit(error):
            # The error code is that of a used-up limit, but a retry would not help.
            return person(
                f"{why}: more than a minute's limit to this mail", HandOverReason.BUDGET_SPENT
            )
        if status in _TRY_AGAIN or status >= 500:
            wish = retry_after_seconds(error.response.headers)
            return retry(why, wish, limited=status == 429)
        if status in _ABOUT_THIS_MAIL:
            too_long = status == 413 or code in _TOO_LONG
            reason = HandOverReason.BUDGET_SPENT if too_long else HandOverReason.MODEL_REFUSED
            return person(f"{why} to this mail", reason)
        return operator(
            f"{why}; check OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL={self._model}"
        )


def _code(error: openai.APIStatusError) -> str | None:
    """Return the error's code, or its type; None if it is a sentence, as with some servers, which might quote
    the mail."""
    for code in (error.code, error.type):
        if not isinstance(code, str) or code.isdigit() or len(code) > 60:
            continue
        if code.replace("_", "a").isalnum():
            return code
    return None


def _is_above_the_limit(error: openai.APIStatusError) -> bool:
    """Return whether a 429 says that this one request is larger than a whole minute's or day's limit."""
    told = json.dumps([error.body, error.message], default=str)
    found = _LIMIT_AND_REQUEST.search(told)
    if found is None:
        return "request too large" in told.lower()
    limit, requested = (int(number.replace(",", "")) for number in found.groups())
    return requested > limit


def _refused_extras(error: openai.APIStatusError, extras: Json) -> frozenset[str]:
    """Return those of `extras` that a 400 or 422 complains about.

    Models without reasoning refuse encrypted reasoning; some servers refuse unknown fields. The error's text
    may quote the mail, so we do not return it.
    """
    if error.status_code not in (400, 422):
        return frozenset()
    told = json.dumps([error.body, error.message], default=str).lower()
    return frozenset(
        name
        for name in extras
        if error.param == name or any(words in told for words in _DISPENSABLE[name])
    )
