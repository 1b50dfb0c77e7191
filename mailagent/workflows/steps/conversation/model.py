"""Asking the model what to do next. Its words decide nothing: arguments were checked by `agent`, and what
follows is up to the other steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mailagent import services
from mailagent.agent import loop
from mailagent.store.errors import is_outage
from mailagent.workflows.steps.conversation.asking import (
    Asked,
    ask_in_turn,
    record_call,
)
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.context import CaseOfStep
from mailagent.workflows.steps.conversation.lookup_tools import LOOKS
from mailagent.workflows.steps.conversation.moves import (
    move_of,
    plain_move,
    tool_items,
    without_text,
)
from mailagent.workflows.steps.conversation.unrecorded import Unrecorded
from mailagent.workflows.steps.recording import at_work, declare_marks, mark, step
from mailagent.workflows.steps.texts import items_of

# A look-up lies between two asks of the model. More of them would make a step last for minutes, and a worker
# that is to end waits for its steps.
REQUESTS_IN_A_STEP = 2

declare_marks("ask_model", "looked")


@dataclass(slots=True)
class _Progress:
    """How far a step has come, for its next try: `asked` is an answer that is not on record yet, `call` a
    look-up that is not done, `move` what follows in the end; `items` is what the model is told on top of what
    the step was given."""

    used: loop.Spent
    items: list[dict[str, Any]] = field(default_factory=list)
    looked: list[dict[str, Any]] = field(default_factory=list)
    asked: Asked | None = None
    call: dict[str, Any] | None = None
    move: dict[str, Any] | None = None


_unrecorded = Unrecorded[_Progress]()


@step
def ask_model(batch: Batch, items: list[dict[str, Any]], spent: dict[str, int]) -> dict[str, Any]:
    """Ask the model what to do next, and say so as plain data. What it wants to look up is looked up, and it
    is asked once more.

    `kind` is `call` (use a tool), `again`, `reply`, `wait`, `later` (it is not to be asked for now: the run
    ends) or `person`; `text_id` names the words of it (`words.words_of`), `items` those that the model is to
    be told next time on top of what it was told; `spent` is what the answers have cost.

    Raises NeedsOperatorError when no mail can be answered: recorded as this step's error, so that a
    replay begins with asking again.
    """
    told = items_of(items)
    progress = _unrecorded.find() or _Progress(loop.Spent(**spent))
    try:
        if progress.move is None:
            progress.move = _next_move(batch, told, progress, bool(items or spent))
        recorded = without_text(batch, _whole(progress.move, progress))
    except Exception as problem:
        if not is_outage(problem):  # else the step is tried again
            _unrecorded.forget()
        raise
    _unrecorded.forget()
    return recorded


def _whole(move: dict[str, Any], progress: _Progress) -> dict[str, Any]:
    """Return a move with what was looked up before it."""
    looked = {"looked": progress.looked} if progress.looked else {}
    return move | {"items": [*progress.items, *move["items"]]} | looked


def _next_move(
    batch: Batch, items: list[dict[str, Any]], progress: _Progress, has_begun: bool
) -> dict[str, Any]:
    case = CaseOfStep(batch)
    while True:
        if progress.call is None:
            move = _ask_once(case, batch, items, progress, has_begun)
            if move["kind"] != "call" or move["tool"] not in LOOKS:
                return move
            progress.call = move
        _look(batch, progress.call, progress)
        mark("ask_model", "looked")
        if len(progress.looked) >= REQUESTS_IN_A_STEP or at_work.is_leaving:
            return move_of("again", progress.used, why="has looked something up")


def _look(batch: Batch, call: Mapping[str, Any], progress: _Progress) -> None:
    """Look up what the model wants to know; of now, and again if the step is tried again."""
    tool, arguments = call["tool"], call["arguments"]
    at, output = services.current().now().isoformat(), LOOKS[tool](batch, arguments)
    progress.items += [*call["items"], *tool_items(call, output)]
    progress.looked.append({"tool": tool, "arguments": arguments, "output": output, "at": at})
    progress.call = None


def _ask_once(
    case: CaseOfStep,
    batch: Batch,
    items: list[dict[str, Any]],
    progress: _Progress,
    has_begun: bool,
) -> dict[str, Any]:
    """Ask the model, record what that took, and return the move that follows."""
    told, used = [*items, *progress.items], progress.used
    over = used.why_over(services.current().budget)
    if progress.asked is None and over is not None:
        return move_of("person", used, reason=over.name, summary="")
    if progress.asked is None:
        found = ask_in_turn(case, told, used, has_begun or bool(progress.items))
        if not isinstance(found, Asked):
            return found
        progress.asked = found
        _unrecorded.keep(progress)
    asked, outcome = progress.asked, progress.asked.outcome
    record_call(batch, asked)
    used = used.plus(outcome)
    progress.asked, progress.used = None, used
    move = plain_move(loop.next_move(outcome), used, asked.noted)
    return move | {"items": [*outcome.get("items", []), *move["items"]]}
