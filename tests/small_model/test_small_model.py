"""A real model, as small as they come: real tokens and real nonsense over real HTTP. It takes minutes, so it is
opt-in: `SMALL_MODEL_PYTHON` names a Python that has the requirements beside this file."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from mailagent.evals.episode import Agent
from mailagent.evals.pool import Pool, pool
from mailagent.evals.score import SCORES, Sample
from mailagent.evals.task import read_file

PYTHON = os.environ.get("SMALL_MODEL_PYTHON", "")
SUITE = Path(__file__).parents[1] / "evals" / "measure.toml"
# The first ends every request, for the instructions alone are longer. The second has room for an answer of some
# hundred tokens: the model would ramble on to the end of more.
CONTEXTS = [2_560, 4_096]

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="SMALL_MODEL_PYTHON is not set"),
    pytest.mark.timeout(3 * 3600),
]


@contextmanager
def serving(context_tokens: int) -> Iterator[str]:
    """Serve the model, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = Path(__file__).with_name("serve.py")
    server = subprocess.Popen([PYTHON, str(script), str(port), str(context_tokens)])
    try:
        _wait(lambda: httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def _wait(is_up: Callable[[], bool], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if is_up():
                return
        except httpx2.HTTPError:
            pass
        time.sleep(1)
    raise TimeoutError("the model's server did not start")


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Pool]:
    with pool(1, tmp_path / "worlds.log") as opened:
        yield opened


@pytest.mark.parametrize("context_tokens", CONTEXTS)
def test_nothing_is_paid_and_every_mail_is_answered_or_handed_over(
    worlds: Pool, context_tokens: int
) -> None:
    with serving(context_tokens) as url:
        slow = {"OPENAI_TIMEOUT_SECONDS": "600"}  # reading the instructions alone may take a minute
        agent = Agent("smollm2", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "local", **slow})
        for task in read_file(SUITE):
            record = worlds.play(task, agent)
            sample = Sample(task, record, task.state or ())
            assert (task.id, record.error, record.unanswered) == (task.id, "", 0)
            assert record.mails, task.id
            assert {refund.ledger_minor for refund in record.refunds} <= {0}, task.id
            untrue = ("violations", "money_wrong", "harmed", "wrong_language")
            assert {name: SCORES[name](sample) for name in untrue} == dict.fromkeys(untrue, 0), (
                record
            )
