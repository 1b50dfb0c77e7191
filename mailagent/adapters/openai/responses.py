"""Parses the body of a Responses API answer into one of four outcomes: done, retry, operator, person."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.text import storable

Json = dict[str, Any]

_READ = ("usage", "error", "output", "status", "incomplete_details")
_ECHOED = frozenset({"reasoning", "message", "function_call"})
_PASSING_FAULTS = frozenset({"server_error", "rate_limit_exceeded", "server_is_overloaded"})


def retry(
    why: str,
    after_seconds: float | None = None,
    usage: Json | None = None,
    answered: bool = False,
    limited: bool = False,
) -> Json:
    """Return the outcome "ask again", after `after_seconds` if the server named a time.

    `answered`: the server works, but we cannot use its answer. `limited`: we exceeded its rate limit.
    """
    outcome = {"kind": "retry", "after_seconds": after_seconds, "why": why}
    more: Json = {"usage": usage, "answered": answered, "limited": limited}
    return outcome | {name: value for name, value in more.items() if value}


def operator(why: str) -> Json:
    """Return the outcome "every call fails until an operator acts"."""
    return {"kind": "operator", "why": why}


def person(why: str, reason: HandOverReason, usage: Json | None = None) -> Json:
    """Return the outcome "a person must answer this mail"."""
    outcome = {"kind": "person", "reason": reason.name, "why": why}
    return outcome | ({"usage": usage} if usage else {})


def read_answer(body: bytes, items_before: int) -> Json:
    """Return the outcome of a response 200 with this body. `items_before`: how many input items we sent."""
    try:
        answer = json.loads(body, parse_constant=lambda _: None)  # NaN is no JSON to store
    except (ValueError, RecursionError):
        # It may be a page of a proxy, or an incomplete answer.
        return retry("the model's server answered with something that is not JSON")
    if not isinstance(answer, dict):
        return retry("the model's server answered with JSON that is not a response")
    # Leave out the request, which the answer repeats.
    answer = storable({name: answer[name] for name in _READ if name in answer})
    usage = _usage(answer.get("usage"))
    if isinstance(answer.get("error"), dict):
        return _judge_error(answer["error"], usage)
    output = answer.get("output")
    status = answer.get("status") or "completed"  # some local servers leave it out
    if status == "incomplete":
        return _judge_incomplete(answer.get("incomplete_details"), usage)
    if status != "completed" or not isinstance(output, list):
        return retry("the model's server answered without an output", usage=usage)
    return _read_output([each for each in output if isinstance(each, dict)], items_before, usage)


def _judge_error(error: Json, usage: Json) -> Json:
    code = str(error.get("code") or error.get("type"))
    if code == "insufficient_quota":
        return operator("the model's server says insufficient_quota; check the account")
    if code in _PASSING_FAULTS or code == "None":
        limited = code == "rate_limit_exceeded"
        return retry("the model failed at the server's side", usage=usage, limited=limited)
    return person("the model's server refused this mail", HandOverReason.MODEL_REFUSED, usage)


def _judge_incomplete(details: object, usage: Json) -> Json:
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        return person("a content filter stopped the answer", HandOverReason.MODEL_REFUSED, usage)
    return person("the answer did not come to an end", HandOverReason.BUDGET_SPENT, usage)


def _read_output(output: list[Json], items_before: int, usage: Json) -> Json:
    items = [_without_nulls(item) for item in output if _is_echoed(item)]
    parts = list(_parts(items))
    if any(part.get("type") == "refusal" for part in parts):
        # A refusal has no text. Without this check, we would send an empty mail.
        return person("the model declined to answer", HandOverReason.MODEL_REFUSED, usage)
    calls = [
        _call(item, f"call_{items_before}_{number}")
        for number, item in enumerate(items)
        if item["type"] == "function_call"
    ]
    text = "\n\n".join(_texts(parts))
    if not calls and not text:
        return retry("the model's answer was empty", usage=usage, answered=True)
    return {"kind": "done", "items": items, "text": text or None, "calls": calls, "usage": usage}


def _is_echoed(item: Json) -> bool:
    """Return whether an item can go back to the server.

    A reasoning item without content refers to data that the server has not stored. Calls of tools that we do
    not offer cannot be answered.
    """
    if item.get("type") == "reasoning":
        return bool(item.get("encrypted_content") or item.get("content"))
    return item.get("type") in _ECHOED


def _without_nulls(item: Json) -> Json:
    """Remove nulls: some local servers write them where OpenAI's schema wants no key."""
    return {key: value for key, value in item.items() if value is not None}


def _parts(items: Iterable[Json]) -> Iterable[Json]:
    for item in items:
        # Newer models mark remarks that are not part of the reply as commentary.
        if item["type"] == "message" and item.get("phase") != "commentary":
            content = item.get("content")
            if isinstance(content, str):
                content = [{"type": "output_text", "text": content}]
            if isinstance(content, list):
                yield from (part for part in content if isinstance(part, dict))


def _texts(parts: Iterable[Json]) -> Iterable[str]:
    for part in parts:
        text = part.get("text")
        if part.get("type") in ("output_text", "text") and isinstance(text, str) and text.strip():
            yield text.strip()


def _call(item: Json, own_id: str) -> Json:
    """Return a tool call. Correct in `item` what local servers get wrong."""
    if not isinstance(item.get("call_id"), str) or not item["call_id"]:
        item["call_id"] = own_id
    arguments = item.get("arguments", "")
    if not isinstance(arguments, str):
        item["arguments"] = arguments = json.dumps(arguments)
    item["name"] = name = str(item.get("name", ""))
    return {"name": name, "arguments": arguments, "call_id": item["call_id"]}


def _usage(usage: object) -> Json:
    """Return the token counts of a call; 0 for a count that the server does not name."""
    fields = usage if isinstance(usage, dict) else {}
    details = fields.get("input_tokens_details")
    details = details if isinstance(details, dict) else {}
    cache_write = _count(details.get("cache_write_tokens"))
    return {
        "input": _count(fields.get("input_tokens")),
        "cached": _count(details.get("cached_tokens")),
        "output": _count(fields.get("output_tokens")),
    } | ({"cache_write": cache_write} if cache_write else {})


def _count(value: object) -> int:
    return max(0, value) if type(value) is int else 0
