"""What follows an answer of the model, as plain data for the body of the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, tools
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.run_about import HeldUpBy
from mailagent.domain.text import NeedsOperatorError
from mailagent.workflows.steps.circuit_breaker import Noted
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.texts import store_texts


def move_of(kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    """Return a move of a kind, with what belongs to it."""
    return {"kind": kind, "items": [], "spent": used.plain(), **more}


def held_up(by: HeldUpBy, kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    """Return the move of a run that cannot go on now, and say among its attributes what holds it up."""
    _note_hold_up(by)
    return move_of(kind, used, **more)


def _note_hold_up(by: HeldUpBy) -> None:
    run_id = DBOS.workflow_id
    if run_id is not None:
        services.current().workflow_client.queue.describe_hold_up(run_id, by)


def plain_move(move: loop.Move, used: loop.Spent, noted: Noted) -> dict[str, Any]:
    """Return a move as plain data. Raises NeedsOperatorError when an operator is needed who is not told
    yet."""
    match move:
        case loop.CallTool():
            return _plain_call(move, used)
        case loop.Reply(text):
            return move_of("reply", used, text=text)
        case loop.AskAgain(why=why) if noted.is_open or _is_limited_for_long(move, used):
            return held_up(HeldUpBy.MODEL, "later", used, why=why)
        case loop.AskAgain(why=why):
            pause = loop.pause_seconds(move, used, str(DBOS.workflow_id))
            return held_up(HeldUpBy.MODEL, "wait", used, after_seconds=pause, why=why)
        case loop.AskOperator(why):
            with services.current().database.transaction() as connection:
                is_news = open_incident(connection, IncidentKind.OPENAI, why)
            if not is_news:  # operators know, and one failed run is enough
                return held_up(HeldUpBy.MODEL, "later", used, why=why)
            _note_hold_up(HeldUpBy.MODEL)
            raise NeedsOperatorError(why)
        case loop.AskPerson(reason, why):
            return move_of("person", used, reason=reason.name, summary=why)


def _is_limited_for_long(move: loop.Move, used: loop.Spent) -> bool:
    return loop.is_limited_for_long(move, used, services.current().budget)


def _plain_call(move: loop.CallTool, used: loop.Spent) -> dict[str, Any]:
    has_goodwill = services.current().policy.goodwill is not None
    call = tools.parse_call(move.name, move.arguments, has_goodwill)
    if isinstance(call, tools.Misfit):
        return move_of("again", used, items=loop.tool_result_items(move, call.output))
    if isinstance(call, tools.HandOver):
        return move_of("person", used, reason=call.reason.name, summary=call.summary)
    return move_of(
        "call",
        used,
        tool=move.name,
        arguments=asdict(call),
        call_id=move.call_id,
        other_call_ids=list(move.other_call_ids),
    )


# What a recorded move holds itself: names, reasons and numbers of ours. All else in it are words.
_RECORDED = frozenset({"kind", "spent", "tool", "reason", "after_seconds", "why"})


def without_text(batch: Batch, move: Mapping[str, Any]) -> dict[str, Any]:
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
