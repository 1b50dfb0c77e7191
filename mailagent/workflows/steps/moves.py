"""What follows an answer of the model, as plain data for the body of the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, tools
from mailagent.domain.matter import Matter
from mailagent.workflows.steps.leave import Noted
from mailagent.workflows.steps.matters import note_matter


class OperatorNeededError(Exception):
    """The run cannot go on until an operator has put something right; then it is replayed."""


def move_of(kind: str, used: loop.Spent, **more: Any) -> dict[str, Any]:
    """Return a move of a kind, with what belongs to it."""
    return {"kind": kind, "items": [], "spent": used.plain(), **more}


def plain_move(move: loop.Move, used: loop.Spent, noted: Noted) -> dict[str, Any]:
    """Return a move as plain data. Raises OperatorNeededError when an operator is needed who is not told
    yet."""
    match move:
        case loop.CallTool():
            return _plain_call(move, used)
        case loop.Reply(text):
            return move_of("reply", used, text=text)
        case loop.AskAgain(why=why) if noted.is_open or _is_limited_for_long(move, used):
            return move_of("later", used, why=why)
        case loop.AskAgain():
            pause = loop.pause_seconds(move, used, str(DBOS.workflow_id))
            return move_of("wait", used, after_seconds=pause, why=move.why)
        case loop.AskOperator(why) if noted.was_refused:
            return move_of("later", used, why=why)  # operators know, and one failed run is enough
        case loop.AskOperator(why):
            with services.current().database.transaction() as connection:
                note_matter(connection, Matter.OPENAI, why)
            raise OperatorNeededError(why)
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


def tool_items(move: Mapping[str, Any], output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model is told about the call in `move`: the tool's output."""
    call = loop.CallTool(move["tool"], "", move["call_id"], tuple(move["other_call_ids"]))
    return loop.tool_result_items(call, output)
