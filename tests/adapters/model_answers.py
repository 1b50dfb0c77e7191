"""Answers of OpenAI's Responses API, as the tests of the adapter give them."""

from __future__ import annotations

from typing import Any

LETTER = "My kettle of order W1001 is broken"
ITEMS: list[dict[str, Any]] = [{"role": "user", "content": LETTER}]


def message(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    } | more


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 20,
            "total_tokens": 120,
        },
    } | more
