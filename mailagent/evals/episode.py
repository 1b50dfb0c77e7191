"""Plays one sample: a customer writes to a world until they have no more to say; then we read the rows."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mailagent import services
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.evals.customer import Ask, Customer, Letter, customer_of, find_invented
from mailagent.evals.record import Record, read_record
from mailagent.evals.scripted import PREFIX, Script, ScriptedServer, find_script
from mailagent.evals.task import Task
from mailagent.evals.world import NeedsOperator, NotQuiet, World, open_world, served

SCRIPTED_SECONDS, MODEL_SECONDS = 60.0, 600.0


@dataclass(frozen=True, slots=True)
class Agent:
    """The configuration that is measured. `model`: a name, or `scripted:` and the name of a script.
    `settings`: of the app, such as OPENAI_BASE_URL, OPENAI_API_KEY or REFUND_POLICY."""

    model: str
    settings: Mapping[str, str]

    @property
    def script(self) -> Script | None:
        """The script; None for a model. Raises KeyError for an unknown script."""
        return (
            find_script(self.model.removeprefix(PREFIX)) if self.model.startswith(PREFIX) else None
        )


def run(task: Task, agent: Agent, template: Path, trial: int = 1, ask: Ask | None = None) -> Record:
    """Play a sample and return its record. `ask`: asks the model that plays the customer; None: a script
    does."""
    # SDKs would use a proxy even for local servers.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    folder = Path(tempfile.mkdtemp(prefix="mailagent-evals-"))
    began = time.monotonic()
    try:
        with _opened(folder, template, task, agent, trial) as (world, server):
            letters: list[Letter] = []
            broke = _converse(world, server, customer_of(task, ask), letters)
            with services.current().database.snapshot() as connection:
                record = read_record(connection)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(
        record,
        letters=tuple(letter.text for letter in letters),
        invented=find_invented(task, letters),
        seconds=round(time.monotonic() - began, 3),
        error=str(broke or ""),
        ends_run=isinstance(broke, NeedsOperator),
    )


@contextmanager
def _opened(
    folder: Path, template: Path, task: Task, agent: Agent, trial: int
) -> Iterator[tuple[World, ScriptedServer | None]]:
    if agent.script is None:
        model = {"OPENAI_MODEL": agent.model}
        with open_world(folder, template, task, model, agent.settings) as world:
            yield world, None
        return
    server = ScriptedServer(agent.script, task, trial)
    with served(server):
        model = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "scripted",
            "OPENAI_MODEL": agent.model,
        }
        with open_world(folder, template, task, model, agent.settings) as world:
            yield world, server


def _converse(
    world: World, server: ScriptedServer | None, customer: Customer, letters: list[Letter]
) -> NotQuiet | None:
    """Let the customer write and the app answer, and note the letters. Returns what went wrong with the
    sample itself, if anything."""
    seconds = MODEL_SECONDS if server is None else SCRIPTED_SECONDS
    answers: list[SentMail] = []
    while (turn := customer.write([mail.text for mail in answers])) is not None:
        if server is not None:
            server.turn = turn
        letters.append(Letter(turn.mail, [mail.text for mail in world.mails_to(world.task.sender)]))
        world.write(turn)
        try:
            world.run_until_quiet(seconds)
        except NotQuiet as problem:
            return problem
        answers = world.new_mails(turn.sender or world.task.sender)
    return None
