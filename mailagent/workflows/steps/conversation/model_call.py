"""Asking the model what to do next: when it may be asked, the record of what that took, and the move that
follows, as plain data for the body of the workflow.

The model's words decide nothing: arguments were checked by `agent`, and what follows is up to other steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, prompt
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.run_about import HeldUpBy, hash_customer
from mailagent.domain.text import NeedsOperatorError
from mailagent.store import ids
from mailagent.store.errors import is_outage
from mailagent.store.operations import model_calls
from mailagent.telemetry import spans
from mailagent.workflows.steps.circuit_breaker import (
    Noted,
    Permit,
    give_back,
    note_outcome,
    take_permit,
)
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.context import CaseOfStep
from mailagent.workflows.steps.conversation.rate_limit import (
    is_above_the_limit,
    note_tokens,
    note_wish,
    take_turn,
    why_stopped,
)
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import at_work, declare_marks, mark, step
from mailagent.workflows.steps.texts import items_of, store_texts
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.hand_over import HandOver
from mailagent.workflows.tools.tool import Misfit, parse_call

# A look-up lies between two asks of the model. More of them would make a step last for minutes, and a worker
# that is to end waits for its steps.
REQUESTS_IN_A_STEP = 2

# The tries of a step take five minutes. What is older is of one that has given up; it may hold a mail's words.
KEPT_SECONDS = 900.0

# What a recorded move holds itself: names, reasons and numbers of ours. All else in it are words.
_RECORDED = frozenset({"kind", "spent", "tool", "reason", "after_seconds", "why"})

declare_marks("ask_model", "looked")


@dataclass(slots=True)
class _Asked:
    """An answer of the model, or what came instead of one."""

    outcome: Mapping[str, Any]
    leave: Permit
    call_id: int = field(default_factory=ids.new_number)
    noted: Noted = Noted()


@dataclass(slots=True)
class _Progress:
    """How far a step has come, for its next try: `asked` is an answer that is not on record yet, `call` a
    look-up that is not done, `move` what follows in the end; `items` is what the model is told on top of what
    the step was given."""

    used: loop.Spent
    items: list[dict[str, Any]] = field(default_factory=list)
    looked: list[dict[str, Any]] = field(default_factory=list)
    asked: _Asked | None = None
    call: dict[str, Any] | None = None
    move: dict[str, Any] | None = None


class Unrecorded:
    """Answers that a step has got and could not record, by the run and the place in it: its next try records
    them without asking again. They are gone with the process; then the step asks again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[float, _Progress]] = {}

    def find(self) -> _Progress | None:
        """Return what an earlier try of this step got, or None. A replay is no further try."""
        place = _place()
        if place is None:
            return None
        status = DBOS.step_status
        if status is None or not status.current_attempt:
            self._kept.pop(place, None)
        found = self._kept.get(place)
        return found[1] if found else None

    def keep(self, got: _Progress) -> None:
        """Keep what was got until `forget`."""
        place, now = _place(), time.monotonic()
        for old, (since, _) in list(self._kept.items()):
            if now - since > KEPT_SECONDS:
                self._kept.pop(old, None)
        if place is not None:
            self._kept[place] = now, got

    def forget(self) -> None:
        """Let go of what is on record now."""
        place = _place()
        if place is not None:
            self._kept.pop(place, None)


def _place() -> tuple[str, int] | None:
    run_id, number = DBOS.workflow_id, DBOS.step_id
    return None if run_id is None or number is None else (run_id, number)


_unrecorded = Unrecorded()


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
        recorded = _without_words(batch, _whole(progress.move, progress))
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
            if move["kind"] != "call" or not registry.reads_only(move["tool"]):
                return move
            progress.call = move
        _look(batch, progress.call, progress)
        mark("ask_model", "looked")
        if len(progress.looked) >= REQUESTS_IN_A_STEP or at_work.is_leaving:
            return _move_of("again", progress.used, why="has looked something up")


def _look(batch: Batch, call: Mapping[str, Any], progress: _Progress) -> None:
    """Look up what the model wants to know; of now, and again if the step is tried again."""
    tool, arguments = call["tool"], call["arguments"]
    at = services.current().now().isoformat()
    output = registry.run(tool, batch, arguments)
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
        return _move_of("person", used, reason=over.name, summary="")
    if progress.asked is None:
        found = _ask_in_turn(case, told, used, has_begun or bool(progress.items))
        if not isinstance(found, _Asked):
            return found
        progress.asked = found
        _unrecorded.keep(progress)
    asked, outcome = progress.asked, progress.asked.outcome
    record_call(batch, asked)
    used = used.plus(outcome)
    progress.asked, progress.used = None, used
    move = _plain_move(loop.next_move(outcome), used, asked.noted)
    return move | {"items": [*outcome.get("items", []), *move["items"]]}


# --- one ask ----------------------------------------------------------------------------------------


def _ask_in_turn(
    case_of_step: CaseOfStep, items: Sequence[dict[str, Any]], used: loop.Spent, has_begun: bool
) -> _Asked | dict[str, Any]:
    """Ask the model if it may be asked now; else return what to do instead."""
    stopped = None if has_begun else why_stopped()
    if stopped is not None:
        return _held_up(HeldUpBy.BUDGET, "later", used, why=stopped)
    case = case_of_step.find()
    told = [case.item, *items]
    if is_above_the_limit(_instructions(), told):
        why = "the case is more than OPENAI_TOKENS_PER_MINUTE lets through"
        return _move_of("person", used, reason=HandOverReason.BUDGET_SPENT.name, summary=why)
    leave = take_permit(Provider.OPENAI, case.breaker)
    if leave is None:
        why = case.breaker.why if case.breaker else ""
        return _held_up(HeldUpBy.MODEL, "later", used, why=why)
    turn = take_turn(_instructions(), told, used.turn_ms, has_begun)
    if turn is None or turn.wait_seconds:
        _give_back(leave)
        if turn is None:
            why = "the limits of calls and tokens a minute are used up"
            return _held_up(HeldUpBy.LIMITS, "later", used, why=why)
        waits = replace(used, turn_ms=turn.at_ms)
        why = "its turn is yet to come"
        return _held_up(HeldUpBy.LIMITS, "wait", waits, after_seconds=turn.wait_seconds, why=why)
    outcome = _request(told, case.address)
    note_tokens(turn, outcome)
    return _Asked(outcome, leave)


def _give_back(leave: Permit) -> None:
    if leave.probing:
        with services.current().database.transaction() as connection:
            give_back(connection, leave)


def _instructions() -> str:
    live = services.current()
    goodwill = live.policy.goodwill
    most_percent = goodwill.most_percent if goodwill else None
    return prompt.instructions(live.shop.name, live.shop.support_address, most_percent)


def _request(items: list[dict[str, Any]], address: str) -> Mapping[str, Any]:
    live, instructions = services.current(), _instructions()
    schemas = registry.schemas(live.policy)
    with spans.call(Provider.OPENAI, "ask"):
        return live.model.ask(
            instructions,
            items,
            schemas,
            prompt.version(instructions, schemas),
            hash_customer(address),
        )


def record_call(batch: Batch, asked: _Asked) -> None:
    """Record what asking took, whatever came of it, and whether the provider is well. Once: a commit may
    have been done although nobody was told so, and the step is tried again."""
    live, outcome = services.current(), asked.outcome
    about = (asked.call_id, batch["conversation_id"], DBOS.workflow_id)
    with live.database.transaction() as connection:
        if model_calls.record(connection, *about, outcome, live.now(), live.token_prices):
            note_wish(connection, outcome)
            asked.noted = note_outcome(connection, asked.leave, loop.failure_of(outcome))


# --- the move that follows --------------------------------------------------------------------------


def _move_of(kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    """Return a move of a kind, with what belongs to it."""
    return {"kind": kind, "items": [], "spent": used.plain(), **more}


def _held_up(by: HeldUpBy, kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    """Return the move of a run that cannot go on now, and say among its attributes what holds it up."""
    _note_hold_up(by)
    return _move_of(kind, used, **more)


def _note_hold_up(by: HeldUpBy) -> None:
    run_id = DBOS.workflow_id
    if run_id is not None:
        services.current().workflow_client.queue.describe_hold_up(run_id, by)


def _plain_move(move: loop.Move, used: loop.Spent, noted: Noted) -> dict[str, Any]:
    """Return a move as plain data. Raises NeedsOperatorError when an operator is needed who is not told
    yet."""
    match move:
        case loop.CallTool():
            return _plain_call(move, used)
        case loop.Reply(text):
            return _move_of("reply", used, text=text)
        case loop.AskAgain(why=why) if noted.is_open or loop.is_limited_for_long(
            move, used, services.current().budget
        ):
            return _held_up(HeldUpBy.MODEL, "later", used, why=why)
        case loop.AskAgain(why=why):
            pause = loop.pause_seconds(move, used, str(DBOS.workflow_id))
            return _held_up(HeldUpBy.MODEL, "wait", used, after_seconds=pause, why=why)
        case loop.AskOperator(why):
            with services.current().database.transaction() as connection:
                is_news = open_incident(connection, IncidentKind.OPENAI, why)
            if not is_news:  # operators know, and one failed run is enough
                return _held_up(HeldUpBy.MODEL, "later", used, why=why)
            _note_hold_up(HeldUpBy.MODEL)
            raise NeedsOperatorError(why)
        case loop.AskPerson(reason, why):
            return _move_of("person", used, reason=reason.name, summary=why)


def _plain_call(move: loop.CallTool, used: loop.Spent) -> dict[str, Any]:
    offered = registry.offered(services.current().policy)
    call = parse_call(offered, move.name, move.arguments)
    if isinstance(call, Misfit):
        return _move_of("again", used, items=loop.tool_result_items(move, call.output))
    if isinstance(call, HandOver):
        return _move_of("person", used, reason=call.hand_over_reason.name, summary=call.summary)
    return _move_of(
        "call",
        used,
        tool=move.name,
        arguments=call.model_dump(mode="json"),
        call_id=move.call_id,
        other_call_ids=list(move.other_call_ids),
    )


def _without_words(batch: Batch, move: Mapping[str, Any]) -> dict[str, Any]:
    """Return a move to be recorded: its words stand in a row of their own. `items` is what names them there,
    if the model is to be told of any; `looked` names what was looked up."""
    recorded = {name: move[name] for name in move if name in _RECORDED} | {"items": []}
    words = {name: move[name] for name in move if name not in _RECORDED}
    if not any(words.values()):
        return recorded
    named = store_texts(batch, words)
    looked = [{"tool": look["tool"], "at": look["at"]} for look in move.get("looked", ())]
    return (
        recorded
        | named
        | ({"looked": looked} if looked else {})
        | {"items": [named] if move["items"] else []}
    )


def tool_items(move: Mapping[str, Any], output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model is told about the call in `move`: the tool's output."""
    call = loop.CallTool(move["tool"], "", move["call_id"], tuple(move["other_call_ids"]))
    return loop.tool_result_items(call, output)
