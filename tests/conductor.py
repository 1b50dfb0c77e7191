"""A stand-in for the server behind the DBOS console (Conductor): workers connect to it over a WebSocket, and
it asks them what the console asks when its users look at runs and replay them."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.harness import wait_until

KEY = "console-key"
ANSWER_SECONDS = 30.0


class ConsoleError(Exception):
    """What the worker says it could not do."""


@dataclass(eq=False)
class _Line:
    """The connection of one worker. Each question has an id, and the answer to it a queue."""

    connection: ServerConnection
    answers: dict[str, Queue[dict[str, Any]]] = field(default_factory=dict)

    def ask(self, kind: str, **more: Any) -> dict[str, Any]:
        request_id = str(uuid.uuid4())
        self.answers[request_id] = Queue()
        self.connection.send(json.dumps({"type": kind, "request_id": request_id, **more}))
        try:
            answer = self.answers[request_id].get(timeout=ANSWER_SECONDS)
        except Empty:
            raise ConsoleError(f"no worker has answered {kind}") from None
        if answer.get("error_message"):
            raise ConsoleError(answer["error_message"])
        return answer

    def listen(self) -> None:
        for message in self.connection:
            answer = json.loads(message)
            self.answers[answer["request_id"]].put(answer)


class Console:
    """The console, and what its users do there. Any worker may be asked: the latest is."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._server: Server = serve(self._welcome, "127.0.0.1", 0)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()

    @property
    def settings(self) -> dict[str, str]:
        """What a worker is configured with to connect here."""
        port = self._server.socket.getsockname()[1]
        return {"DBOS_CONDUCTOR_KEY": KEY, "DBOS_CONDUCTOR_URL": f"ws://127.0.0.1:{port}"}

    def _welcome(self, connection: ServerConnection) -> None:
        line = _Line(connection)
        self._lines.append(line)
        try:
            line.listen()
        except ConnectionClosed:
            pass  # a process that was killed says no goodbye
        finally:
            self._lines.remove(line)

    def _request(self, kind: str, **more: Any) -> dict[str, Any]:
        wait_until(lambda: bool(self._lines), ANSWER_SECONDS, "a worker to connect to the console")
        return self._lines[-1].ask(kind, **more)

    # --- what its users see -----------------------------------------------------------------------

    def executors(self) -> list[dict[str, Any]]:
        """Return what the connected workers say of themselves."""
        return [line.ask("executor_info") for line in list(self._lines)]

    def list_runs(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the workflows that a filter lets through, newest first."""
        body = {"sort_desc": True, "limit": 50, **wanted}
        found: list[dict[str, Any]] = self._request("list_workflows", body=body)["output"]
        return found

    def show(self, run_id: str) -> dict[str, Any]:
        """Return a workflow as its page shows it."""
        whole = {"load_input": True, "load_output": True}
        found: dict[str, Any] = self._request("get_workflow", workflow_id=run_id, **whole)["output"]
        return found

    def steps(self, run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._request("list_steps", workflow_id=run_id)["output"]
        return found

    # --- what its users do ------------------------------------------------------------------------

    def fork(self, run_id: str, step: int, version: str | None = None) -> str:
        """Fork a workflow from a step; return the fork's id."""
        body = {
            "workflow_id": run_id,
            "start_step": step,
            "application_version": version,
            "new_workflow_id": None,
        }
        return str(self._request("fork_workflow", body=body)["new_workflow_id"])

    def fork_from_failure(self, *run_ids: str) -> list[str]:
        """Fork workflows, each from the step that failed; return the forks' ids."""
        body = {"workflow_ids": list(run_ids), "from_last_failure": True}
        forks: list[str] = self._request("fork_from_failure", body=body)["forked_workflow_ids"]
        return forks

    def rewind(self, run_id: str, step: int) -> None:
        assert self._request("rewind_workflow", body={"workflow_id": run_id, "start_step": step})[
            "success"
        ]

    def cancel(self, run_id: str) -> None:
        assert self._request("cancel", workflow_id=run_id, workflow_ids=[run_id])["success"]

    def delete(self, run_id: str) -> None:
        request = {"workflow_id": run_id, "workflow_ids": [run_id], "delete_children": False}
        assert self._request("delete", **request)["success"]

    def recover(self, executor_id: str) -> None:
        """Have a worker queue the runs of one again that is believed dead."""
        assert self._request("recovery", executor_ids=[executor_id])["success"]

    def resume(self, run_id: str) -> None:
        assert self._request("resume", workflow_id=run_id, workflow_ids=[run_id])["success"]
