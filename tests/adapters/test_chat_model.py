"""The model client against a real local server: what it sends, and what it makes of every answer."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from mailagent.adapters.openai.client import MAX_OUTPUT_TOKENS, ChatModel
from mailagent.agent.loop import inert_json
from mailagent.domain.mail.conversation import HandOverReason
from tests.adapters.model_answers import ITEMS, LETTER, message, response
from tests.tool_calls import SCHEMAS

KEY = "sk-test-0123456789"
MODEL = "gpt-5.4-mini"


class Answers:
    """Answers in turn; the last one is repeated. `requests` and `keys` are what came in."""

    def __init__(self, *answers: tuple[int, Any, Mapping[str, str]]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []


class Handler(BaseHTTPRequestHandler):
    state: ClassVar[Answers]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.state.requests.append({"path": self.path, **json.loads(body)})
        self.state.keys.append(self.headers["Authorization"])
        answers = self.state.answers
        status, value, headers = answers.pop(0) if len(answers) > 1 else answers[0]
        if status == 0:  # hang up, or answer only later
            time.sleep(value)
            self.close_connection = True
            return
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, text)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(*answers: tuple[int, Any] | tuple[int, Any, Mapping[str, str]]) -> Iterator[Any]:
    """Serve `answers` and yield a model that asks there, with the requests that came."""
    state = Answers(*((*answer, {})[:3] for answer in answers))
    handler = type("OneHandler", (Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield ChatModel(KEY, url, MODEL, timeout_seconds=5), state
    finally:
        server.shutdown()
        server.server_close()


def ask(model: ChatModel, items: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    outcome = model.ask("Be kind.", items or ITEMS, SCHEMAS, "mailagent-1", "a" * 64)
    assert json.loads(json.dumps(outcome)) == outcome, "only plain JSON data survives a step"
    assert LETTER not in str(outcome.get("why"))
    assert KEY not in str(outcome)
    return outcome


def call(name: str | None = "look_at_order", **more: Any) -> dict[str, Any]:
    return {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "name": name,
        "arguments": '{"order_id": "W1001"}',
        "call_id": "call_1",
    } | more


# --- what is sent -----------------------------------------------------------------------------


def test_the_request_keeps_nothing_at_the_provider_and_asks_for_one_call_at_a_time() -> None:
    with served((200, response(message("Hello")))) as (model, state):
        ask(model)
    assert state.requests == [
        {
            "path": "/v1/responses",
            "model": MODEL,
            "instructions": "Be kind.",
            "input": ITEMS,
            "tools": SCHEMAS,
            "store": False,
            "parallel_tool_calls": False,
            "max_output_tokens": MAX_OUTPUT_TOKENS,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "mailagent-1",
            "safety_identifier": "a" * 64,
        }
    ]
    assert state.keys == [f"Bearer {KEY}"]


def test_without_tools_nothing_is_said_about_calls() -> None:
    with served((200, response(message("Hello")))) as (model, state):
        model.ask("Be kind.", ITEMS, [], "k", "h")
    assert not {"tools", "parallel_tool_calls", "tool_choice"} & state.requests[0].keys()


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (
            "include",
            {"message": "Encrypted content is not supported with this model.", "param": "include"},
        ),
        ("prompt_cache_key", {"message": "Unknown parameter: 'prompt_cache_key'.", "code": "x"}),
        ("safety_identifier", {"message": "safety_identifier: Extra inputs are not permitted"}),
    ],
)
def test_what_a_server_does_not_know_is_left_out_from_then_on(
    refused: str, error: dict[str, Any]
) -> None:
    answers = ((400, {"error": error}), (200, response(message("Hello"))))
    with served(*answers) as (model, state):
        assert ask(model)["kind"] == "done"
        assert ask(model)["kind"] == "done"
    assert [refused in request for request in state.requests] == [True, False, False]
    assert all(request["store"] is False for request in state.requests)


def test_a_server_that_refuses_everything_extra_is_asked_with_the_core_alone() -> None:
    detail = [{"loc": ["body", name]} for name in ("prompt_cache_key", "safety_identifier")]
    detail.append({"loc": ["reasoning.encrypted_content"]})
    answers = ((422, {"detail": detail}), (200, response(message("Hello"))))
    with served(*answers) as (model, state):
        assert ask(model)["kind"] == "done"
    assert state.requests[1].keys().isdisjoint({"include", "prompt_cache_key", "safety_identifier"})


def test_store_is_never_left_out() -> None:
    error = {"message": "store: Extra inputs are not permitted", "param": "store"}
    with served((400, {"error": error})) as (model, state):
        assert ask(model)["kind"] == "person"
    assert [request["store"] for request in state.requests] == [False]


def test_texts_that_cannot_be_sent_are_mended() -> None:
    with served((200, response(message("Hello")))) as (model, state):
        ask(model, [{"role": "user", "content": "a\ud800b\x00c"}])
    assert state.requests[0]["input"][0]["content"] == "a?b\ufffdc"


# --- what comes back --------------------------------------------------------------------------


def test_a_reply_is_returned_with_what_it_cost() -> None:
    with served((200, response(message("Hello Ada")))) as (model, _):
        assert ask(model) == {
            "kind": "done",
            "items": [message("Hello Ada")],
            "text": "Hello Ada",
            "calls": [],
            "usage": {"input": 100, "cached": 60, "output": 20},
            "model": "gpt-5.4-mini",
        }


def test_a_call_is_returned_with_the_reasoning_that_must_go_before_it() -> None:
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    with served((200, response(thought, call()))) as (model, _):
        outcome = ask(model)
    assert outcome["items"] == [thought, call()]
    assert outcome["calls"] == [
        {"name": "look_at_order", "arguments": '{"order_id": "W1001"}', "call_id": "call_1"}
    ]
    assert outcome["text"] is None


@pytest.mark.parametrize(
    ("thought", "echoed"),
    [
        ({"encrypted_content": "gAAA"}, True),
        ({"encrypted_content": "", "content": [{"type": "reasoning_text", "text": "x"}]}, True),
        ({}, False),
        ({"encrypted_content": None}, False),
        ({"encrypted_content": "", "content": []}, False),
    ],
)
def test_reasoning_that_the_server_did_not_keep_is_not_sent_back(
    thought: dict[str, Any], echoed: bool
) -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": []} | thought
    with served((200, response(item, call()))) as (model, _):
        assert len(ask(model)["items"]) == 1 + echoed


def test_what_local_servers_get_wrong_is_mended() -> None:
    odd = call(call_id=None, arguments={"order_id": "W1001"}, status=None)
    other = call(None, call_id="", arguments=None)
    with served((200, {"output": [odd, other, "?", {"type": "web_search_call"}]})) as (model, _):
        outcome = ask(model)
    assert outcome["calls"] == [
        {"name": "look_at_order", "arguments": '{"order_id": "W1001"}', "call_id": "call_1_0"},
        {"name": "", "arguments": "", "call_id": "call_1_1"},
    ]
    assert [item["call_id"] for item in outcome["items"]] == ["call_1_0", "call_1_1"]
    assert "status" not in outcome["items"][0], "null is not what the API takes back"
    assert outcome["usage"] == {"input": 0, "cached": 0, "output": 0}


def test_what_was_put_into_the_cache_is_told_where_the_server_counts_it() -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    usage = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 20}
    with served((200, response(message("Hello"), usage=usage))) as (model, _):
        told = ask(model)["usage"]
    assert told == {"input": 100, "cached": 60, "output": 20, "cache_write": 30}


def test_commentary_on_the_way_is_no_reply() -> None:
    output = [message("Let me look.", phase="commentary"), message("Hi", phase="final_answer")]
    with served((200, response(*output))) as (model, _):
        outcome = ask(model)
    assert outcome["text"] == "Hi"
    assert outcome["items"] == output


def test_a_text_that_no_database_takes_is_mended() -> None:
    body = json.dumps(response(message("a\x00b"), call(name="x\ud800"))).encode()
    with served((200, body)) as (model, _):
        outcome = ask(model)
    assert outcome["text"] == "a\ufffdb"
    assert outcome["calls"][0]["name"] == "x?"
    assert outcome["items"][0]["content"][0]["text"] == "a\ufffdb"


# --- what goes wrong --------------------------------------------------------------------------


def error(code: str | None = None, **more: Any) -> dict[str, Any]:
    # Providers quote the mail and the key in their messages.
    return {
        "error": {"message": f"{LETTER} {KEY}", "type": "t", "code": code, "param": None} | more
    }


def limited(what: str, numbers: str) -> dict[str, Any]:
    """Return what OpenAI says of a limit: the code does not tell one that is used up from a request that
    is larger than all of it."""
    told = f"{what} for {MODEL} in organization org-1 on tokens per min (TPM): {numbers}."
    return error("rate_limit_exceeded", type="tokens", message=told)


REFUSAL = message("", content=[{"type": "refusal", "refusal": LETTER}])


TOO_LONG, FILTERED = ({"reason": each} for each in ("max_output_tokens", "content_filter"))
SPENT, REFUSED = HandOverReason.BUDGET_SPENT.name, HandOverReason.MODEL_REFUSED.name


@pytest.mark.parametrize(
    ("status", "body", "told"),  # the kind; for a person the reason; limited: a retry, as of a limit a minute
    [
        (408, error(), "retry"),
        (409, error(), "retry"),
        (429, error("rate_limit_exceeded"), "limited"),
        (429, error("slow_down"), "limited"),
        (429, error(), "limited"),
        (429, limited("Rate limit reached", "Limit 30000, Used 29000, Requested 2000"), "limited"),
        (429, limited("Request too large", "Limit 30000, Requested 30001"), SPENT),
        (429, limited("Rate limit reached", "Limit 30,000, Used 1, Requested 31,000"), SPENT),
        (429, limited("Request too large", "the tokens must be reduced"), SPENT),
        (500, error("server_error"), "retry"),
        (502, b"<html>Bad gateway</html>", "retry"),
        (503, error("server_is_overloaded"), "retry"),
        (529, b"", "retry"),
        (401, error("invalid_api_key"), "operator"),
        (402, error(), "operator"),
        (403, error(), "operator"),
        (404, error("model_not_found"), "operator"),
        (404, b"404 page not found", "operator"),
        (405, error(), "operator"),
        (429, error("insufficient_quota"), "operator"),
        (429, error("project_spend_limit_exceeded"), "operator"),
        (429, error(None, type="insufficient_quota"), "operator"),
        (429, error("billing_not_active"), "operator"),
        (400, error("unsupported_parameter"), "operator"),
        (400, error("model_not_found"), "operator"),
        (400, error("context_length_exceeded"), SPENT),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error"}}, SPENT),
        (400, error("invalid_prompt"), REFUSED),
        (400, error(LETTER), REFUSED),
        (413, b"", SPENT),
        (422, error(), REFUSED),
        (200, b"<html>hello</html>", "retry"),
        (200, b'{"output": [', "retry"),
        (200, b"\xff\xfe\x00", "retry"),
        (200, b"[" * 100_000, "retry"),
        (200, b'"text"', "retry"),
        (200, b"[]", "retry"),
        (200, b"null", "retry"),
        (200, b"", "retry"),
        (200, error("server_error"), "retry"),
        (200, error("rate_limit_exceeded"), "limited"),
        (200, error(), REFUSED),
        (200, error("insufficient_quota"), "operator"),
        (200, response(status="failed", error={"code": "server_error", "message": LETTER}), "retry"),
        (200, response(status="failed", error={"code": "invalid_prompt"}), REFUSED),
        (200, response(status="failed"), "retry"),
        (200, response(status="in_progress"), "retry"),
        (200, response(output=None), "retry"),
        (200, response(output={}), "retry"),
        (200, {}, "retry"),
        (200, response(), "retry"),
        (200, response(message("  ")), "retry"),
        (200, response(message("", content=None)), "retry"),
        (200, response({"type": "reasoning", "id": "rs"}), "retry"),
        (200, response(REFUSAL), REFUSED),
        (200, response(message("Hm."), REFUSAL), REFUSED),
        (200, response(message("Hel"), status="incomplete", incomplete_details=TOO_LONG), SPENT),
        (200, response(call(), status="incomplete", incomplete_details=FILTERED), REFUSED),
        (200, response(call(), status="incomplete", incomplete_details=None), SPENT),
    ],
)  # fmt: skip
def test_everything_that_goes_wrong_is_data(status: int, body: Any, told: str) -> None:
    with served((status, body)) as (model, state):
        outcome = ask(model)
    kind = "limited" if outcome.get("limited") else outcome["kind"]
    assert outcome.get("reason", kind) == told
    assert 0 < len(outcome["why"]) < 200
    assert len(state.requests) == 1, "trying again is for the workflow"


def test_an_answer_that_cannot_be_used_has_cost_tokens_all_the_same() -> None:
    with served((200, response(REFUSAL))) as (model, _):
        assert ask(model)["usage"]["input"] == 100
    with served((200, response())) as (model, _):
        assert ask(model)["usage"]["output"] == 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "0"}, 0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "Retry-After": "7"}, 1.5),
        ({"retry-after-ms": "soon", "Retry-After": "7"}, 7),
        ({"Retry-After": "99999999"}, 3600),
        ({"Retry-After": "1e999"}, 3600),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_the_servers_wish_for_a_pause_is_kept(
    headers: dict[str, str], seconds: float | None
) -> None:
    with served((429, error("rate_limit_exceeded"), headers)) as (model, _):
        assert ask(model)["after_seconds"] == seconds


def test_a_pause_may_be_given_as_a_date() -> None:
    date = formatdate(time.time() + 100, usegmt=True)
    with served((503, error(), {"Retry-After": date})) as (model, _):
        assert 90 <= ask(model)["after_seconds"] <= 100


def test_a_connection_that_breaks_is_tried_again() -> None:
    with served((0, 0)) as (model, state):
        assert ask(model)["kind"] == "retry"
    assert len(state.requests) == 1
    with served((200, response(message("x")), {"Content-Length": "9999"})) as (model, _):
        assert ask(model)["kind"] == "retry"


def test_a_server_that_is_not_there_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    model = ChatModel(KEY, f"http://127.0.0.1:{port}/v1", MODEL)
    assert ask(model)["kind"] == "retry"


def test_an_answer_that_takes_too_long_is_tried_again() -> None:
    with served((0, 2)) as (served_model, _):
        model = ChatModel(KEY, served_model._base_url, MODEL, timeout_seconds=0.5)
        outcome = ask(model)
    assert outcome["kind"] == "retry"
    assert "0.5 s" in outcome["why"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_ORG_ID", "é"),
        ("OPENAI_CUSTOM_HEADERS", "X-Shop: é"),
        ("ALL_PROXY", "nonsense://proxy"),
        ("ALL_PROXY", "socks5://127.0.0.1:9"),  # needs a package that is not installed
        ("SSL_CERT_FILE", "/nowhere.pem"),
    ],
)
def test_odd_variables_that_only_the_sdk_reads_are_for_an_operator(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each, text in {"no_proxy": "", "NO_PROXY": "", name: value}.items():
        monkeypatch.setenv(each, text)
    with served((200, response(message("Hello")))) as (model, state):
        assert ask(model)["kind"] == "operator"
    assert not state.requests


@pytest.mark.parametrize(
    ("key", "url", "name"),
    [
        ("", None, "OPENAI_API_KEY"),
        ("sk-one sk-two", None, "OPENAI_API_KEY"),
        ("sk-\n", None, "OPENAI_API_KEY"),
        ("sk-é", None, "OPENAI_API_KEY"),
        (KEY, "localhost:11434/v1", "OPENAI_BASE_URL"),
        (KEY, "/v1", "OPENAI_BASE_URL"),
        (KEY, "ftp://host/v1", "OPENAI_BASE_URL"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(
    key: str, url: str | None, name: str
) -> None:
    with pytest.raises(ValueError, match=name) as refused:
        ChatModel(key, url, MODEL)
    assert not key or key not in str(refused.value)


def test_neither_the_mail_nor_the_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served((400, error("invalid_prompt")), (200, response(message("Hello Ada")))) as (
        model,
        _,
    ):
        ask(model)
        ask(model)
    assert caplog.text.count("/v1/responses") == 2
    assert LETTER not in caplog.text
    assert "Hello Ada" not in caplog.text
    assert KEY not in caplog.text


def test_threads_may_share_a_model() -> None:
    outcomes: list[dict[str, Any]] = []
    with served((200, response(message("Hello")))) as (model, _):
        threads = [threading.Thread(target=lambda: outcomes.append(ask(model))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [outcome["kind"] for outcome in outcomes] == ["done"] * 16


def test_a_whole_conversation_is_echoed_unchanged() -> None:
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    answers = ((200, response(thought, call())), (200, response(message("Hello"))))
    with served(*answers) as (model, state):
        first = ask(model)
        result = {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": inert_json({"error": "no_such_order"}),
        }
        ask(model, [*ITEMS, *first["items"], result])
    assert state.requests[1]["input"] == [*ITEMS, thought, call(), result]


@pytest.mark.parametrize("status", [401, 400])
def test_a_key_that_is_refused_is_named(status: int) -> None:
    with served((status, error("invalid_api_key"))) as (model, _):
        assert "check OPENAI_API_KEY" in ask(model)["why"]
