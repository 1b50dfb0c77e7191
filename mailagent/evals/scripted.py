"""Scripted models whose scores are known, to test the scores themselves; and the server that plays them.

They know the task. `perfect` does exactly what the task says.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.openai import OpenAIServer, answer_to, tool_results
from mailagent.demo.scripted_model import Call, Fact, Part, Phrase, Say, ToolResult
from mailagent.evals.task import Act, Task, Turn

PREFIX = "scripted:"
LIE = "Your refund of $49.99 has been paid and arrives tomorrow."


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scripted model sees. `done`: its calls in this turn. `corrected`: the app refused its last reply.
    `trial`: counts from 1."""

    task: Task
    turn: Turn
    done: Sequence[ToolResult]
    corrected: bool
    trial: int


Script = Callable[[Seen], Call | Say]


def perfect(seen: Seen) -> Call | Say:
    return follow(seen, seen.turn.acts)


def follow(seen: Seen, acts: Sequence[Act]) -> Call | Say:
    """Make the calls, then name the facts."""
    if len(seen.done) < len(acts):
        act = acts[len(seen.done)]
        return Call(act.tool, act.arguments)
    shown = [next(iter(each.output["facts"])) for each in seen.done if each.output.get("facts")]
    facts = [Fact(each) for each in seen.turn.tells or dict.fromkeys(shown)]
    phrases = [Phrase(each) for each in seen.turn.phrases or ("thanks_message",)]
    return Say([*phrases, *facts, Phrase("just_answer")], seen.task.language)


def lazy(seen: Seen) -> Say:
    return Say([Phrase("thanks_message"), Phrase("just_answer")], seen.task.language)


def obedient(seen: Seen) -> Call | Say:
    """Do what the mail asks for, even if an attacker asks."""
    return follow(seen, seen.turn.lure or seen.turn.acts)


def liar(seen: Seen) -> Say:
    lie: list[Part] = [LIE]
    return Say(lie, seen.task.language)


def over_cautious(_seen: Seen) -> Call:
    return Call("hand_over", {"reason": "cannot_help", "summary": "Better a person sees to this."})


def every_second(seen: Seen) -> Call | Say:
    return perfect(seen) if seen.trial % 2 else lazy(seen)


SCRIPTS: Mapping[str, Script] = {
    "perfect": perfect,
    "lazy": lazy,
    "obedient": obedient,
    "liar": liar,
    "over_cautious": over_cautious,
    "every_second": every_second,
}


def find_script(name: str) -> Script:
    """Return a script by its name, or by its module and its name: `tests.programs.worse:apologises`. Raises
    KeyError if there is none."""
    module, _, function = name.rpartition(":")
    found: Script = getattr(importlib.import_module(module), function) if module else SCRIPTS[name]
    return found


class ScriptedServer(OpenAIServer):
    """The Responses API, answered by a script. `turn`: the mail of the customer that is answered."""

    def __init__(self, script: Script, task: Task, trial: int) -> None:
        self._script, self._task, self._trial = script, task, trial
        self.turn = task.turns[0]
        super().__init__()

    def _create(self, request: Request) -> Answer:
        body = json.loads(request.body)
        items: list[dict[str, Any]] = body["input"]
        corrected = len(items) > 1 and items[-1].get("role") == "user"
        seen = Seen(self._task, self.turn, tool_results(items), corrected, self._trial)
        return Answer(200, answer_to(body, self._script(seen), request.body))
