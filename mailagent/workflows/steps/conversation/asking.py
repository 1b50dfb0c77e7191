"""One ask of the model: when it may be made, and the record of what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, prompt, tool_schemas
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.operations.run_about import HeldUpBy, hash_customer
from mailagent.store import ids
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
from mailagent.workflows.steps.conversation.moves import held_up, move_of
from mailagent.workflows.steps.conversation.rate_limit import (
    is_above_the_limit,
    note_tokens,
    note_wish,
    take_turn,
    why_stopped,
)


@dataclass(slots=True)
class Asked:
    """An answer of the model, or what came instead of one."""

    outcome: Mapping[str, Any]
    leave: Permit
    call_id: int = field(default_factory=ids.new_number)
    noted: Noted = Noted()


def ask_in_turn(
    case_of_step: CaseOfStep, items: Sequence[dict[str, Any]], used: loop.Spent, has_begun: bool
) -> Asked | dict[str, Any]:
    """Ask the model if it may be asked now; else return what to do instead."""
    stopped = None if has_begun else why_stopped()
    if stopped is not None:
        return held_up(HeldUpBy.BUDGET, "later", used, why=stopped)
    case = case_of_step.find()
    told = [case.item, *items]
    if is_above_the_limit(_instructions(), told):
        why = "the case is more than OPENAI_TOKENS_PER_MINUTE lets through"
        return move_of("person", used, reason=HandOverReason.BUDGET_SPENT.name, summary=why)
    leave = take_permit(Provider.OPENAI, case.breaker)
    if leave is None:
        why = case.breaker.why if case.breaker else ""
        return held_up(HeldUpBy.MODEL, "later", used, why=why)
    turn = take_turn(_instructions(), told, used.turn_ms, has_begun)
    if turn is None or turn.wait_seconds:
        _give_back(leave)
        if turn is None:
            why = "the limits of calls and tokens a minute are used up"
            return held_up(HeldUpBy.LIMITS, "later", used, why=why)
        waits = replace(used, turn_ms=turn.at_ms)
        why = "its turn is yet to come"
        return held_up(HeldUpBy.LIMITS, "wait", waits, after_seconds=turn.wait_seconds, why=why)
    outcome = _request(told, case.address)
    note_tokens(turn, outcome)
    return Asked(outcome, leave)


def _give_back(leave: Permit) -> None:
    if leave.probing:
        with services.current().database.transaction() as connection:
            give_back(connection, leave)


def _most_percent() -> int | None:
    goodwill = services.current().policy.goodwill
    return goodwill.most_percent if goodwill else None


def _instructions() -> str:
    shop = services.current().shop
    return prompt.instructions(shop.name, shop.support_address, _most_percent())


def _request(items: list[dict[str, Any]], address: str) -> Mapping[str, Any]:
    live, most_percent = services.current(), _most_percent()
    with spans.call(Provider.OPENAI, "ask"):
        return live.model.ask(
            _instructions(),
            items,
            tool_schemas.offered_tools(most_percent is not None),
            prompt.version(most_percent),
            hash_customer(address),
        )


def record_call(batch: Batch, asked: Asked) -> None:
    """Record what asking took, whatever came of it, and whether the provider is well. Once: a commit may
    have been done although nobody was told so, and the step is tried again."""
    live, outcome = services.current(), asked.outcome
    about = (asked.call_id, batch["conversation_id"], DBOS.workflow_id)
    with live.database.transaction() as connection:
        if model_calls.record(connection, *about, outcome, live.now(), live.token_prices):
            note_wish(connection, outcome)
            asked.noted = note_outcome(connection, asked.leave, loop.failure_of(outcome))
