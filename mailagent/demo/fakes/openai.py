"""A local server that speaks OpenAI's Responses API and answers with the demo's scripted model.

Requests, responses and errors have the published shapes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.scripted_model import (
    Say,
    ToolResult,
    Turn,
    next_turn,
    read_passages,
    read_request,
)

MODEL_NAME = "scripted-demo-model"


class OpenAIServer(LocalServer):
    """`latency_seconds`: the duration of each answer, so that people can watch the steps."""

    def __init__(self, latency_seconds: float = 0.0) -> None:
        self._latency_seconds = latency_seconds
        super().__init__({"POST /v1/responses": self._create}, _no)

    def _create(self, request: Request) -> Answer:
        if not str(request.headers.get("Authorization", "")).startswith("Bearer "):
            return _error(401, "You didn't provide an API key.")
        try:
            body = json.loads(request.body)
            turn = _turn(body)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            return _error(400, f"The demo's model cannot read this request: {problem}")
        time.sleep(self._latency_seconds)
        return Answer(200, answer_to(body, turn, request.body))


def _no(request: Request) -> Answer:
    return _error(404, f"Invalid URL ({request.path})")


def _error(status: int, message: str) -> Answer:
    kind = "invalid_request_error"
    return Answer(
        status, {"error": {"message": message, "type": kind, "param": None, "code": None}}
    )


def _turn(body: Mapping[str, Any]) -> Turn:
    """Return the model's turn for a request. Raises ValueError for items that the real API refuses too."""
    if not isinstance(body.get("model"), str):
        raise ValueError("model: a name is required")
    items = body["input"]
    if not isinstance(items, list) or not items:
        raise ValueError("input: a list of items is expected")
    users = [_text(item) for item in items if item.get("role") == "user"]
    if not users:
        raise ValueError("input: there is no user item")
    if not users[0].startswith("{"):
        return Say("Yes.")  # a question of `flask check`, and no case
    corrected = len(items) > 1 and items[-1].get("role") in ("user", "developer", "system")
    passages = read_passages(str(body.get("instructions") or ""))
    turn = next_turn(read_request(users[0]), tool_results(items), corrected, passages)
    return _within_schema(turn, body.get("tools") or [])


def _within_schema(turn: Turn, tools: Sequence[Mapping[str, Any]]) -> Turn:
    """Return the turn as strict schemas allow it: `pay_as` is there if the shop gives store credit now. A
    look-up on record may say otherwise."""
    if isinstance(turn, Say) or turn.name != "propose_refund":
        return turn
    arguments = {name: turn.arguments[name] for name in turn.arguments if name != "pay_as"}
    schemas = [tool["parameters"]["properties"] for tool in tools if tool["name"] == turn.name]
    if any("pay_as" in properties for properties in schemas):
        arguments["pay_as"] = turn.arguments.get("pay_as", "no_choice")
    return replace(turn, arguments=arguments)


def _text(item: Mapping[str, Any]) -> str:
    content = item["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


def tool_results(items: Sequence[Mapping[str, Any]]) -> list[ToolResult]:
    """Return each tool call of `items` with its output, in order.

    Raises ValueError for a call without an output or an output without a call.
    """
    calls = {item["call_id"]: item for item in items if item.get("type") == "function_call"}
    outputs = {}
    for item in items:
        if item.get("type") == "function_call_output":
            outputs[item["call_id"]] = json.loads(item["output"])
    if calls.keys() != outputs.keys():
        wrong = ", ".join(sorted(calls.keys() ^ outputs.keys()))
        raise ValueError(f"a tool call and its output do not go together: {wrong}")
    return [
        ToolResult(call["name"], json.loads(call["arguments"]), outputs[call_id])
        for call_id, call in calls.items()
    ]


def answer_to(body: Mapping[str, Any], turn: Turn, raw: bytes) -> dict[str, Any]:
    """Return the Response object for `turn`.

    Its ids are a hash of the request, so that a repeated request gets the same response.
    """
    key = hashlib.sha256(raw).hexdigest()[:32]
    output = [_output_item(turn, key)]
    sent, made = len(raw) // 4, max(1, len(json.dumps(output)) // 4)
    usage = {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + made,
    }
    return {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "usage": usage,
    }


def _output_item(turn: Turn, key: str) -> dict[str, Any]:
    if isinstance(turn, Say):
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        return {
            "id": f"msg_{key}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    return {
        "id": f"fc_{key}",
        "type": "function_call",
        "status": "completed",
        "name": turn.name,
        "arguments": json.dumps(turn.arguments),
        "call_id": f"call_{key[:24]}",
    }
