"""The demo's OpenAI over real HTTP: what it answers, and what it refuses as the real one does."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailagent.adapters.openai.client import ChatModel
from mailagent.demo.fakes.openai import MODEL_NAME, OpenAIServer

CASE = json.dumps({"sender_verified": True, "history": [], "mails": [{"text": "refund W1001"}]})
USER = {"role": "user", "content": CASE}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "look_at_order",
    "arguments": '{"order_id": "W1001"}',
}
OUTPUT = {
    "type": "function_call_output",
    "call_id": "call_1",
    "output": '{"error": "no_such_order", "facts": {"no_order/W1001": "…"}, "say": "…"}',
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    server.start()
    yield server
    server.stop()


def ask(server: OpenAIServer, body: Any, key: str = "demo") -> tuple[int, Any]:
    target = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=10)
    headers = {"Authorization": f"Bearer {key}" if key else "", "Content-Type": "application/json"}
    connection.request("POST", "/v1/responses", json.dumps(body), headers)
    answer = connection.getresponse()
    status, value = answer.status, json.loads(answer.read())
    connection.close()
    return status, value


def test_the_apps_own_client_understands_its_answers(server: OpenAIServer) -> None:
    model = ChatModel("demo", f"{server.url}/v1", MODEL_NAME)
    first = model.ask("Be kind.", [USER], [], "1", "hash")
    assert first["kind"] == "done"
    assert [call["name"] for call in first["calls"]] == ["look_at_order"]
    call_id = first["calls"][0]["call_id"]
    output = {**OUTPUT, "call_id": call_id}
    second = model.ask("Be kind.", [USER, *first["items"], output], [], "1", "hash")
    assert second["kind"] == "done"
    assert json.loads(second["text"])["parts"][1] == {"fact": "no_order/W1001"}
    assert second["usage"]["input"] > 0


def test_the_same_request_gets_the_same_answer(server: OpenAIServer) -> None:
    body = {"model": MODEL_NAME, "input": [USER]}
    _, first = ask(server, body)
    _, again = ask(server, body)
    assert (first["id"], first["output"]) == (again["id"], again["output"])


@pytest.mark.parametrize(
    ("body", "key", "status"),
    [
        ({"model": "m", "input": [USER]}, "", 401),
        ({"input": [USER]}, "demo", 400),
        ({"model": "m"}, "demo", 400),
        ({"model": "m", "input": []}, "demo", 400),
        ({"model": "m", "input": "hello"}, "demo", 400),
        ({"model": "m", "input": [{"role": "user", "content": "hello"}]}, "demo", 200),
        ({"model": "m", "input": [USER, CALL]}, "demo", 400),
        ({"model": "m", "input": [USER, OUTPUT]}, "demo", 400),
        ({"model": "m", "input": [USER, CALL, OUTPUT]}, "demo", 200),
        ([], "demo", 400),
    ],
)
def test_requests_are_checked(server: OpenAIServer, body: Any, key: str, status: int) -> None:
    answered, value = ask(server, body, key)
    assert answered == status
    assert ("error" in value and value["error"] is not None) == (status != 200)
