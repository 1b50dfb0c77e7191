"""The steps that ask the model, and that run the tools it calls.

The model's text decides nothing: `agent` has checked the arguments, and other steps decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NotRequired, TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, prompt
from mailagent.agent.reply import composition
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.run_about import HeldUpBy, hash_customer
from mailagent.domain.text import NeedsOperatorError
from mailagent.store import ids
from mailagent.store.operations import circuit_breakers, model_calls
from mailagent.telemetry import spans
from mailagent.workflows.steps.circuit_breaker import (
    Permit,
    find_permit,
    give_back,
    note_outcome,
)
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.context import Case, read_case
from mailagent.workflows.steps.conversation.rate_limit import (
    Turn,
    is_above_the_limit,
    note_tokens,
    note_wish,
    take_turn,
    why_stopped,
)
from mailagent.workflows.steps.conversation.texts import (
    StoredText,
    read_items,
    read_text,
    store_text,
)
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import (
    at_work,
    declare_marks,
    mark,
    retry_outages,
    step,
)
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.hand_over import HandOver
from mailagent.workflows.tools.tool import Misfit, parse_call

# A worker that shuts down waits for its steps. More calls of the model would make a step last for minutes.
REQUESTS_IN_A_STEP = 2

declare_marks("ask_model", "looked")


class LookUp(TypedDict):
    """A tool that only reads, and when it was run."""

    tool: str
    at: str


class Move(TypedDict):
    """What the run does next. `kind`:

    `call`: run the tool `tool`; `again`: ask once more; `reply`: write the reply; `wait`: sleep for
    `after_seconds`; `later`: end, because the model may not be asked now; `person`: hand over, for `reason`.
    `items` is what the model is told next time on top of what it was told, `spent` what its answers have cost,
    `text_id` the text of the move: arguments, reply or summary.
    """

    kind: Literal["call", "again", "reply", "wait", "later", "person"]
    items: list[StoredText]
    spent: dict[str, int]
    tool: NotRequired[str]
    reason: NotRequired[str]
    after_seconds: NotRequired[float]
    why: NotRequired[str]
    looked: NotRequired[list[LookUp]]
    text_id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class _Next:
    """A move that is not recorded yet. `plain` may be recorded; `text` is stored in a row.

    `held_up_by` goes into the run's attributes. `operator_error`: the step fails with it instead. `items`: what
    the model is told about its answer.
    """

    kind: Literal["call", "again", "reply", "wait", "later", "person"]
    plain: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    held_up_by: HeldUpBy | None = None
    operator_error: str | None = None
    items: Sequence[Mapping[str, Any]] = ()

    @property
    def is_look_up(self) -> bool:
        return self.kind == "call" and registry.reads_only(self.plain["tool"])


@dataclass(slots=True)
class _Progress:
    """How far a step has come. `told`: what the model was told before the step; `items`: what it said and was
    told in the step; `looked`: what it looked up."""

    batch: Batch
    before: Sequence[StoredText]
    spent: loop.Spent
    has_begun: bool
    case: Case | None = None
    told: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    looked: list[dict[str, Any]] = field(default_factory=list)


@step
def ask_model(batch: Batch, items: list[StoredText], spent: dict[str, int]) -> Move:
    """Ask the model what to do next. If it looks something up, do so and ask once more.

    Raises NeedsOperatorError when no mail can be answered. It is recorded as this step's error, so that a
    replay begins with asking again.
    """
    progress = _Progress(batch, items, loop.Spent(**spent), has_begun=bool(items or spent))
    found = _ask(progress)
    while isinstance(found, _Next):
        _look_up(progress, found)
        mark("ask_model", "looked")
        if len(progress.looked) >= REQUESTS_IN_A_STEP or at_work.is_leaving:
            return _record_without_call(
                progress, _Next("again", {"why": "has looked something up"})
            )
        found = _ask(progress)
    return found


def _look_up(progress: _Progress, call: _Next) -> None:
    tool, arguments = call.plain["tool"], call.text["arguments"]
    at = services.current().now().isoformat()
    output = retry_outages(lambda: registry.run(tool, progress.batch, arguments))
    progress.items += _tool_items(tool, call.text, output)
    progress.looked.append({"tool": tool, "arguments": arguments, "output": output, "at": at})


def _ask(progress: _Progress) -> Move | _Next:
    """Ask the model once, if it may be asked now. Return the recorded move, or the look-up that the model
    wants."""
    prepared = _prepare(progress)
    if isinstance(prepared, _Next):
        return _record_without_call(progress, prepared)
    permit, turn = prepared
    outcome = _request(progress)
    note_tokens(turn, outcome)
    progress.has_begun, progress.spent = True, progress.spent.plus(outcome)
    progress.items += outcome.get("items", [])
    call_id = ids.new_number()
    # Asking again would be paid for again, so only what follows the answer is retried.
    following, move = retry_outages(lambda: _record_answer(progress, permit, call_id, outcome))
    if move is None:
        return following
    _raise_or_describe(following)
    return move


def _record_answer(
    progress: _Progress, permit: Permit, call_id: int, outcome: Mapping[str, Any]
) -> tuple[_Next, Move | None]:
    """Record an answer, its cost and the move that follows; no move if the model wants to look something up."""
    live = services.current()
    with live.database.transaction() as connection:
        about = (call_id, progress.batch["conversation_id"], DBOS.workflow_id)
        if model_calls.record(connection, *about, outcome, live.now(), live.token_prices):
            note_wish(connection, outcome)
            is_open = note_outcome(connection, permit, loop.failure_of(outcome))
        else:  # recorded by an earlier try whose commit was not acknowledged
            breaker = circuit_breakers.find(connection, Provider.OPENAI)
            is_open = breaker is not None and breaker.until_at is not None
        following = _decide(connection, progress, outcome, is_open)
        move = None if following.is_look_up else _record(connection, progress, following)
    return following, move


# --- before a call ----------------------------------------------------------------------------------


def _prepare(progress: _Progress) -> tuple[Permit, Turn] | _Next:
    """Check budget, breaker and limits. Return what the call needs, or what to do instead."""
    over = progress.spent.why_over(services.current().budget)
    if over is not None:
        return _Next("person", {"reason": over.name})
    stopped = None if progress.has_begun else why_stopped()
    if stopped is not None:
        return _Next("later", {"why": stopped}, held_up_by=HeldUpBy.BUDGET)
    permit = _read_case(progress) if progress.case is None else Permit(Provider.OPENAI)
    if isinstance(permit, _Next):
        return permit
    turn = _take_turn(progress)
    if not isinstance(turn, _Next):
        return permit, turn
    if permit.probing:
        with services.current().database.transaction() as connection:
            give_back(connection, permit)
    return turn


def _read_case(progress: _Progress) -> Permit | _Next:
    """Read what the model is told, and take a permit in the same transaction."""
    with services.current().database.transaction() as connection:
        progress.case = read_case(connection, progress.batch)
        progress.told = read_items(connection, progress.before)
        permit = find_permit(connection, Provider.OPENAI)
        if permit is not None:
            return permit
        breaker = circuit_breakers.find(connection, Provider.OPENAI)
    return _Next("later", {"why": breaker.why if breaker else ""}, held_up_by=HeldUpBy.MODEL)


def _input(progress: _Progress) -> list[dict[str, Any]]:
    first = [progress.case.item] if progress.case else []
    return [*first, *progress.told, *progress.items]


def _take_turn(progress: _Progress) -> Turn | _Next:
    instructions, items = _instructions(), _input(progress)
    if is_above_the_limit(instructions, items):
        why = "the case is more than OPENAI_TOKENS_PER_MINUTE lets through"
        return _Next("person", {"reason": HandOverReason.BUDGET_SPENT.name}, {"summary": why})
    turn = take_turn(instructions, items, progress.spent.turn_ms, progress.has_begun)
    if turn is None:
        why = "the limits of calls and tokens a minute are used up"
        return _Next("later", {"why": why}, held_up_by=HeldUpBy.LIMITS)
    if turn.wait_seconds:
        progress.spent = replace(progress.spent, turn_ms=turn.at_ms)
        wait = {"after_seconds": turn.wait_seconds, "why": "its turn is yet to come"}
        return _Next("wait", wait, held_up_by=HeldUpBy.LIMITS)
    return turn


def _instructions() -> str:
    live = services.current()
    goodwill = live.policy.goodwill
    most_percent = goodwill.most_percent if goodwill else None
    return prompt.instructions(
        live.shop.name, live.shop.support_address, most_percent, live.knowledge.passages
    )


def _request(progress: _Progress) -> Mapping[str, Any]:
    live, instructions = services.current(), _instructions()
    schemas = registry.schemas(live.policy)
    version = prompt.version(instructions, schemas)
    customer = hash_customer(progress.case.address if progress.case else "")
    with spans.call(Provider.OPENAI, "ask"):
        return live.model.ask(
            instructions, _input(progress), schemas, version, customer, composition.FORMAT
        )


# --- after a call -----------------------------------------------------------------------------------


def _decide(
    connection: sa.Connection, progress: _Progress, outcome: Mapping[str, Any], is_open: bool
) -> _Next:
    """Return what follows from an answer. `is_open`: the circuit breaker has opened."""
    used = progress.spent
    match loop.next_move(outcome):
        case loop.CallTool() as call:
            return _decide_call(call)
        case loop.Reply(text):
            return _Next("reply", text={"text": text})
        case loop.AskAgain(why=why) as move:
            if is_open or loop.is_limited_for_long(move, used, services.current().budget):
                return _Next("later", {"why": why}, held_up_by=HeldUpBy.MODEL)
            pause = loop.pause_seconds(move, used, str(DBOS.workflow_id))
            wait = {"after_seconds": pause, "why": why}
            return _Next("wait", wait, held_up_by=HeldUpBy.MODEL)
        case loop.AskOperator(why):
            # One failed run is enough: later runs wait until the model can be asked again.
            is_new = open_incident(connection, IncidentKind.OPENAI, why)
            error = why if is_new else None
            return _Next("later", {"why": why}, {}, HeldUpBy.MODEL, operator_error=error)
        case loop.AskPerson(reason, why):
            return _Next("person", {"reason": reason.name}, {"summary": why})


def _decide_call(call: loop.CallTool) -> _Next:
    offered = registry.offered(services.current().policy)
    arguments = parse_call(offered, call.name, call.arguments)
    if isinstance(arguments, Misfit):
        return _Next("again", items=loop.tool_result_items(call, arguments.output))
    if isinstance(arguments, HandOver):
        reason = arguments.hand_over_reason.name
        return _Next("person", {"reason": reason}, {"summary": arguments.summary})
    text = {
        "arguments": arguments.model_dump(mode="json"),
        "call_id": call.call_id,
        "other_call_ids": list(call.other_call_ids),
    }
    return _Next("call", {"tool": call.name}, text)


def _record_without_call(progress: _Progress, following: _Next) -> Move:
    with services.current().database.transaction() as connection:
        move = _record(connection, progress, following)
    _raise_or_describe(following)
    return move


def _record(connection: sa.Connection, progress: _Progress, following: _Next) -> Move:
    """Return a move as the step records it, and store its text."""
    move = Move(kind=following.kind, items=[], spent=progress.spent.plain())
    move.update(following.plain)  # type: ignore[typeddict-item]  # the keys of Move that may be recorded
    items = [*progress.items, *following.items]
    text = {**following.text, "items": items}
    if progress.looked:
        text["looked"] = progress.looked
    if not any(text.values()):
        return move
    stored = store_text(connection, progress.batch, text)
    move["text_id"] = stored["text_id"]
    if items:
        move["items"] = [stored]
    if progress.looked:
        move["looked"] = [LookUp(tool=each["tool"], at=each["at"]) for each in progress.looked]
    return move


def _raise_or_describe(following: _Next) -> None:
    run_id = DBOS.workflow_id
    if following.held_up_by is not None and run_id is not None:
        queue = services.current().workflow_client.queue
        queue.describe_hold_up(run_id, following.held_up_by)
    if following.operator_error is not None:
        raise NeedsOperatorError(following.operator_error)


# --- tools that change something --------------------------------------------------------------------

# These parts of an output have values from closed lists of ours, so they may stand in the step's record.
_RECORDED = ("outcome", "error", "reason")


def call_tool(batch: Batch, move: Move) -> list[StoredText]:
    """Run the tool that a move of the kind `call` names, in a step of the tool's name. Return what the model is
    told of it."""
    done = tool_step(move["tool"])(batch, move)
    return [StoredText(text_id=done["text_id"])]


@cache
def tool_step(name: str) -> Callable[[Batch, Move], dict[str, Any]]:
    """Return the step of a tool."""

    def use(batch: Batch, move: Move) -> dict[str, Any]:
        database = services.current().database
        with database.snapshot() as connection:
            call = read_text(connection, move)
        output = registry.run(name, batch, call["arguments"])
        with database.transaction() as connection:
            text = {"output": output, "items": _tool_items(name, call, output)}
            stored = store_text(connection, batch, text)
        return {**stored, **{part: output[part] for part in _RECORDED if part in output}}

    use.__name__ = use.__qualname__ = name
    return step(use)


def _tool_items(
    tool: str, call: Mapping[str, Any], output: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what the model is told about its call: the tool's output."""
    made = loop.CallTool(tool, "", call["call_id"], tuple(call["other_call_ids"]))
    return loop.tool_result_items(made, output)


for name in registry.changing():  # the crash tests read the list of all steps
    tool_step(name)
