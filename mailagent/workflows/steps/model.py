"""Asking the model what to do next. Its words decide nothing: arguments were checked by `agent`, and what
follows is up to the other steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.agent import first_model, loop, prompt, tool_schemas, tools
from mailagent.domain.breaker import Provider
from mailagent.domain.conversation import HandOverReason
from mailagent.domain.matter import Matter
from mailagent.domain.run_about import hash_customer
from mailagent.store import ids, model_calls
from mailagent.telemetry import spans
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.case import case_of
from mailagent.workflows.steps.leave import (
    Leave,
    Noted,
    give_back,
    note_outcome,
    note_trouble_of_one_model,
    take_leave,
)
from mailagent.workflows.steps.matters import note_matter
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.spending import why_stopped
from mailagent.workflows.steps.turn import is_above_the_limit, note_tokens, note_wish, take_turn
from mailagent.workflows.steps.unrecorded import Unrecorded


class OperatorNeededError(Exception):
    """The run cannot go on until an operator has put something right; then it is replayed."""


@dataclass(slots=True)
class _Asked:
    outcome: Mapping[str, Any]
    leave: Leave
    call_id: int = field(default_factory=ids.new_number)
    noted: Noted = Noted()


_unrecorded = Unrecorded[_Asked]()


@step
def ask_model(batch: Batch, items: list[dict[str, Any]], spent: dict[str, int]) -> dict[str, Any]:
    """Ask the model what to do next, and say so as plain data.

    `kind` is `call` (use a tool), `again`, `reply`, `wait`, `later` (it is not to be asked for now: the run
    ends) or `person`; `items` is what the model is to be told next time on top of what it was told,
    `spent` what the answer has cost.

    Raises OperatorNeededError when no mail can be answered: recorded as this step's error, so that a
    replay begins with asking again.
    """
    live = services.current()
    used = first_model.begun(loop.Spent(**spent), bool(spent), bool(live.first_model), len(items))
    over = used.why_over(live.budget)
    if over is not None:
        return _move("person", used, reason=over.name, summary="")
    asked = _unrecorded.find()
    if asked is None:
        found = _ask_in_turn(batch, items, used, bool(items or spent))
        if not isinstance(found, _Asked):
            return found
        asked = found
        _unrecorded.keep(asked)
    _record_call(batch, asked, used)
    _unrecorded.forget()
    used, next_move = used.plus(asked.outcome), loop.next_move(asked.outcome)
    if used.first_model and _is_left_to_main(next_move, asked.outcome):
        return _move("again", first_model.escalated(used, len(items)), why="left to the main model")
    move = _plain_move(next_move, used, asked.noted)
    return move | {"items": [*asked.outcome.get("items", []), *move["items"]]}


def _ask_in_turn(
    batch: Batch, items: list[dict[str, Any]], used: loop.Spent, has_begun: bool
) -> _Asked | dict[str, Any]:
    """Ask the model if it may be asked now; else return what to do instead."""
    stopped = None if has_begun else why_stopped()
    if stopped is not None:
        return _move("later", used, why=stopped)
    case, address, breaker = case_of(batch)
    told = [case, *items[used.left_items :]]
    if is_above_the_limit(_instructions(), told):
        why = "the case is more than OPENAI_TOKENS_PER_MINUTE lets through"
        return _move("person", used, reason=HandOverReason.BUDGET_SPENT.name, summary=why)
    leave = take_leave(Provider.OPENAI, breaker)
    if leave is None:
        return _move("later", used, why=breaker.why if breaker else "")
    turn = take_turn(_instructions(), told, used.turn_ms, has_begun)
    if turn is None or turn.wait_seconds:
        _give_back(leave)
        if turn is None:
            return _move("later", used, why="the limits of calls and tokens a minute are used up")
        waits = replace(used, turn_ms=turn.at_ms)
        return _move("wait", waits, after_seconds=turn.wait_seconds, why="its turn is yet to come")
    outcome = _ask(told, address, used)
    note_tokens(turn, outcome)
    return _Asked(outcome, leave)


def _give_back(leave: Leave) -> None:
    if leave.probing:
        with services.current().database.transaction() as connection:
            give_back(connection, leave)


def _most_percent() -> int | None:
    goodwill = services.current().policy.goodwill
    return goodwill.most_percent if goodwill else None


def _instructions() -> str:
    shop = services.current().shop
    return prompt.instructions(shop.name, shop.support_address, _most_percent())


def _ask(items: list[dict[str, Any]], address: str, used: loop.Spent) -> Mapping[str, Any]:
    live, most_percent = services.current(), _most_percent()
    model = live.first_model if used.first_model and live.first_model else live.model
    with spans.call(Provider.OPENAI, "ask"):
        return model.ask(
            _instructions(),
            items,
            tool_schemas.offered_tools(most_percent is not None),
            prompt.version(most_percent),
            hash_customer(address),
        )


def _is_left_to_main(move: loop.Move, outcome: Mapping[str, Any]) -> bool:
    has_answered = outcome["kind"] == "done" or bool(outcome.get("answered"))
    return first_model.is_left_to_main(move, has_answered, _most_percent() is not None)


def _record_call(batch: Batch, asked: _Asked, used: loop.Spent) -> None:
    """Record what asking took, whatever came of it, and whether the provider is well. Once: a commit may
    have been done although nobody was told so, and the step is tried again."""
    live, outcome = services.current(), asked.outcome
    about = (asked.call_id, batch["conversation_id"], DBOS.workflow_id)
    prices = live.prices_of(outcome.get("model") or "")
    with live.database.transaction() as connection:
        if model_calls.record(connection, *about, outcome, live.now(), prices):
            asked.noted = _note(connection, asked, used)


def _note(connection: sa.Connection, asked: _Asked, used: loop.Spent) -> Noted:
    """Note whether the provider is well. The first model's own trouble says nothing of the main one, which is
    asked instead and holds up nobody."""
    move = loop.next_move(asked.outcome)
    if not (used.first_model and first_model.is_its_own_trouble(move)):
        note_wish(connection, asked.outcome)
        return note_outcome(connection, asked.leave, loop.failure_of(asked.outcome))
    if isinstance(move, loop.AskOperator):
        note_matter(connection, Matter.FIRST_MODEL, move.why)
    return note_trouble_of_one_model(connection, asked.leave)


def _move(kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "items": [], "spent": used.plain(), **more}


def _plain_move(move: loop.Move, used: loop.Spent, noted: Noted) -> dict[str, Any]:
    match move:
        case loop.CallTool():
            return _plain_call(move, used)
        case loop.Reply(text):
            return _move("reply", used, text=text)
        case loop.AskAgain(why=why) if noted.is_open or _is_limited_for_long(move, used):
            return _move("later", used, why=why)
        case loop.AskAgain():
            pause = loop.pause_seconds(move, used, str(DBOS.workflow_id))
            return _move("wait", used, after_seconds=pause, why=move.why)
        case loop.AskOperator(why) if noted.was_refused:
            return _move("later", used, why=why)  # operators know, and one failed run is enough
        case loop.AskOperator(why):
            with services.current().database.transaction() as connection:
                note_matter(connection, Matter.OPENAI, why)
            raise OperatorNeededError(why)
        case loop.AskPerson(reason, why):
            return _move("person", used, reason=reason.name, summary=why)


def _is_limited_for_long(move: loop.Move, used: loop.Spent) -> bool:
    return loop.is_limited_for_long(move, used, services.current().budget)


def _plain_call(move: loop.CallTool, used: loop.Spent) -> dict[str, Any]:
    has_goodwill = services.current().policy.goodwill is not None
    call = tools.parse_call(move.name, move.arguments, has_goodwill)
    if isinstance(call, tools.Misfit):
        return _move("again", used, items=loop.tool_result_items(move, call.output))
    if isinstance(call, tools.HandOver):
        return _move("person", used, reason=call.reason.name, summary=call.summary)
    return _move(
        "call",
        used,
        tool=move.name,
        arguments=asdict(call),
        call_id=move.call_id,
        other_call_ids=list(move.other_call_ids),
    )


def tool_items(move: Mapping[str, Any], output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model is told about the call in `move`: the tool's output."""
    call = loop.CallTool(move["tool"], "", move["call_id"], tuple(move["other_call_ids"]))
    return loop.tool_result_items(call, output)
