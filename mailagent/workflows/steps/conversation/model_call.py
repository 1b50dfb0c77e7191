"""The step that asks the model, and looks up what it wants to know. Tools that change something are steps of
their own, in `tool_call`.

The model's text decides nothing: `agent` has checked the arguments, and other steps decide what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NotRequired, TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.agent import loop, prompt
from mailagent.agent.reply import composition
from mailagent.domain.mail.conversation import Conversation, HandOverReason
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.operations.rate_limit import LONGEST_FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS
from mailagent.domain.operations.run_about import HeldUpBy, hash_customer
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.text import NeedsOperatorError
from mailagent.proposals.offers import with_promises
from mailagent.store import ids
from mailagent.store.operations import circuit_breakers, model_calls
from mailagent.telemetry import spans
from mailagent.workflows.steps.circuit_breaker import (
    Permit,
    claim_permit,
    free_permit,
    note_outcome,
)
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.conversation.context import Case, read_case
from mailagent.workflows.steps.conversation.orders import look_up_for, needs_look_up
from mailagent.workflows.steps.conversation.rate_limit import (
    is_above_the_limit,
    note_wish,
    take_turn,
    why_stopped,
)
from mailagent.workflows.steps.conversation.texts import StoredText, read_items, store_text
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import at_work, declare_marks, mark, retry_outages, step
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.hand_over import HandOver
from mailagent.workflows.tools.tool import Misfit, parse_call, unusable_order_output

# A worker that shuts down waits for its steps. More calls of the model would make a step last for minutes.
REQUESTS_IN_A_STEP = 2

declare_marks("ask_model", "looked")

Kind = Literal["call", "again", "reply", "wait", "later", "person"]


class LookUp(TypedDict):
    """A tool that only reads, and when it was run."""

    tool: str
    at: str


class RecordedMove(TypedDict):
    """What the run does next. `kind`:

    `call`: run the tool `tool`; `again`: ask once more; `reply`: write the reply; `wait`: sleep for
    `after_seconds`; `later`: end, because the model may not be asked now; `person`: hand over, for `reason`.
    `items`: the texts to add to the model's next input. `spent`: what its answers have cost so far.
    `text_id`: the text of the move: arguments, reply or summary.
    """

    kind: Kind
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
    """A move that is not recorded yet. DBOS records `plain`; a row keeps `text`. `items`: what the model is
    told about its answer. `held_up_by` goes into the run's attributes. `operator_error`: if set, the step fails
    with this text."""

    kind: Kind
    plain: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    items: Sequence[Mapping[str, Any]] = ()
    held_up_by: HeldUpBy | None = None
    operator_error: str | None = None


@dataclass(slots=True)
class _Asking:
    """An `ask_model` step under way. `case`, `told`, `policy` and `instructions`: the input from
    before it; `items`: input that it has added; `looked`: the look-ups that it has made."""

    batch: Batch
    before: Sequence[StoredText]
    spent: loop.Spent
    has_begun: bool
    policy: Policy
    instructions: str = ""
    permit: Permit = field(default=Permit(OPENAI))
    case: Case | None = None
    told: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    looked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def input(self) -> list[dict[str, Any]]:
        return [*([self.case.item] if self.case else []), *self.told, *self.items]


@step
def ask_model(batch: Batch, items: list[StoredText], spent: dict[str, int]) -> RecordedMove:
    """Ask the model what to do next. If it looks something up, do so and ask once more.

    Raises NeedsOperatorError when the provider refuses every call until an operator acts. DBOS records it as
    this step's error, so a replay begins with asking again.
    """
    policy = services.current().policy
    asking = _Asking(batch, items, loop.Spent(**spent), bool(items or spent), policy)
    for _ in range(REQUESTS_IN_A_STEP):
        instead = _prepare(asking)
        if instead is not None:
            return _record_without_call(asking, instead)
        following, move = _ask(asking)
        if move is not None:
            _note_hold_up_or_raise(following)
            return move
        instead = _look_up(asking, following)
        if instead is not None:
            return _record_without_call(asking, instead)
        mark("ask_model", "looked")
        if at_work.is_leaving:
            break
    return _record_without_call(asking, _Next("again", {"why": "has looked something up"}))


def standing_instructions(policy: Policy | None = None, lead: str | None = None) -> str:
    """Return the model's instructions for this shop. `policy`: None for the current one. `lead`: replaces the
    part that is the same for every shop."""
    live = services.current()
    policy = policy or live.policy
    offered = prompt.Offered(
        policy.goodwill.most_percent if policy.goodwill else None,
        sorted(REMEDY_KINDS[each] for each in policy.remedies.offered),
        policy.keep_offers is not None,
        policy.store_credit.bonus_percent if policy.store_credit else None,
    )
    return prompt.instructions(
        live.shop.name,
        live.shop.support_address,
        live.templates.phrases(),
        live.knowledge.passages,
        live.check_model is not None,
        offered,
        lead or live.prompt or prompt.INSTRUCTIONS,
    )


# --- before a call ----------------------------------------------------------------------------------


def _prepare(asking: _Asking) -> _Next | None:
    """Read the case, and check limits, budget and circuit breaker. Return what to do instead of asking; None if
    the model may be asked."""
    over = asking.spent.why_over(services.current().answer_limits)
    if over is not None:
        return _Next("person", {"reason": over.name})
    stopped = None if asking.has_begun else why_stopped()
    if stopped is not None:
        return _Next("later", {"why": stopped}, held_up_by=HeldUpBy.BUDGET)
    away = _read_case(asking) if asking.case is None else None
    if away is not None:
        return away
    instead = _take_turn(asking)
    if instead is not None and asking.permit.probing:
        with services.current().database.transaction() as connection:
            free_permit(connection, asking.permit)
    return instead


def _read_case(asking: _Asking) -> _Next | None:
    """Read what the model is told, and take a permit in the same transaction."""
    with services.current().database.transaction() as connection:
        asking.case = read_case(connection, asking.batch)
        asking.told = read_items(connection, asking.before)
        asking.policy = with_promises(connection)
        asking.instructions = standing_instructions(asking.policy)
        permit = claim_permit(connection, OPENAI)
        if permit is not None:
            asking.permit = permit
            return None
        breaker = circuit_breakers.find(connection, OPENAI)
    return _Next("later", {"why": breaker.why if breaker else ""}, held_up_by=HeldUpBy.MODEL)


def _take_turn(asking: _Asking) -> _Next | None:
    """Reserve the call at the rate limit. Return what to do instead of making it now."""
    if is_above_the_limit(asking.instructions, asking.input):
        why = "the case is more than OPENAI_TOKENS_PER_MINUTE lets through"
        return _Next("person", {"reason": HandOverReason.BUDGET_SPENT.name}, {"summary": why})
    longest = LONGEST_WAIT_SECONDS if asking.has_begun else LONGEST_FIRST_WAIT_SECONDS
    turn = take_turn(asking.instructions, asking.input, longest, asking.spent.turn_ms)
    if turn is None:
        why = "the limits of calls and tokens a minute are used up"
        return _Next("later", {"why": why}, held_up_by=HeldUpBy.LIMITS)
    if not turn.wait_seconds:
        return None
    asking.spent = replace(asking.spent, turn_ms=turn.at_ms)
    wait = {"after_seconds": turn.wait_seconds, "why": "its turn is yet to come"}
    return _Next("wait", wait, held_up_by=HeldUpBy.LIMITS)


# --- the call ---------------------------------------------------------------------------------------


def _ask(asking: _Asking) -> tuple[_Next, RecordedMove | None]:
    """Ask the model once. Return what follows, and the recorded move; no move if it looks something up."""
    outcome = _request(asking)
    asking.has_begun, asking.spent = True, asking.spent.plus(outcome)
    asking.items += outcome.get("items", [])
    call_id = ids.new_number()
    # Asking again would be paid for again, so only what follows the answer is retried.
    answered = retry_outages(lambda: _record_answer(asking, call_id, outcome))
    asking.permit = Permit(OPENAI)  # the probe is over
    return answered


def _request(asking: _Asking) -> Mapping[str, Any]:
    live = services.current()
    schemas = registry.schemas(asking.policy)
    version = prompt.version(asking.instructions, schemas)
    customer = hash_customer(asking.case.conversation.customer_email if asking.case else "")
    text = composition.answer_format(live.templates.phrases(), live.check_model is not None)
    with spans.call(OPENAI.name, "ask"):
        key = version.cache_key
        outcome = live.model.ask(asking.instructions, asking.input, schemas, key, customer, text)
    return {**outcome, "prompt_version": version.prompt, "tools_version": version.tools}


def _record_answer(
    asking: _Asking, call_id: int, outcome: Mapping[str, Any]
) -> tuple[_Next, RecordedMove | None]:
    """Record an answer, its cost and the move that follows; no move if the model looks something up."""
    live = services.current()
    with live.database.transaction() as connection:
        about = (call_id, asking.batch["conversation_id"], DBOS.workflow_id)
        if model_calls.record(connection, *about, outcome, live.now(), live.token_prices):
            note_wish(connection, outcome)
            is_open = note_outcome(connection, asking.permit, loop.failure_of(outcome))
        else:  # recorded by an earlier try whose commit was not acknowledged
            breaker = circuit_breakers.find(connection, OPENAI)
            is_open = breaker is not None and breaker.until_at is not None
        following = _decide(connection, asking, outcome, is_open)
        is_look_up = following.kind == "call" and registry.reads_only(following.plain["tool"])
        return following, None if is_look_up else _record(connection, asking, following)


def _decide(
    connection: sa.Connection, asking: _Asking, outcome: Mapping[str, Any], is_open: bool
) -> _Next:
    """Return what follows from an answer. `is_open`: the circuit breaker has opened."""
    spent = asking.spent
    match loop.next_move(outcome):
        case loop.CallTool() as call:
            return _decide_call(call, asking.policy)
        case loop.Reply(text):
            return _Next("reply", text={"text": text})
        case loop.AskAgain(why=why) as move:
            if is_open or loop.is_limited_for_long(move, spent, services.current().answer_limits):
                return _Next("later", {"why": why}, held_up_by=HeldUpBy.MODEL)
            pause = loop.pause_seconds(move, spent, str(DBOS.workflow_id))
            wait = {"after_seconds": pause, "why": why}
            return _Next("wait", wait, held_up_by=HeldUpBy.MODEL)
        case loop.AskOperator(why):
            # One failed run is enough: later runs wait until the model can be asked again.
            met_by = asking.batch["conversation_id"]
            error = why if open_incident(connection, IncidentKind.OPENAI, why, met_by) else None
            held_up_by = HeldUpBy.MODEL
            return _Next("later", {"why": why}, held_up_by=held_up_by, operator_error=error)
        case loop.AskPerson(reason, why):
            return _Next("person", {"reason": reason.name}, {"summary": why})


def _decide_call(call: loop.CallTool, policy: Policy) -> _Next:
    offered = registry.offered(policy)
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


def _look_up(asking: _Asking, call: _Next) -> _Next | None:
    """Run a tool that only reads, and tell the model what it returned. Return what to do instead if the order
    source is away and the order is not on record."""
    live, tool, arguments = services.current(), call.plain["tool"], call.text["arguments"]
    at, conversation = live.now().isoformat(), _conversation_of(asking)
    order_use = registry.order_use(tool)

    def run(*, fresh: bool) -> dict[str, Any] | None:
        with live.database.snapshot() as connection:
            reader = batch_reader(connection, asking.batch, conversation)
            if not fresh and needs_look_up(order_use, reader, arguments):
                return None
            return registry.run(tool, reader, arguments)

    output = retry_outages(lambda: run(fresh=False))
    if output is None:
        freshness = look_up_for(order_use, asking.batch, conversation, arguments)
        if freshness is Freshness.AWAY:
            return _Next("later", {"why": "the order source is away"}, held_up_by=HeldUpBy.ORDERS)
        unusable = freshness is Freshness.UNUSABLE
        found = None if unusable else retry_outages(lambda: run(fresh=True))
        output = found or unusable_order_output()
    asking.items += tool_items(tool, call.text, output)
    asking.looked.append({"tool": tool, "arguments": arguments, "output": output, "at": at})
    return None


def _conversation_of(asking: _Asking) -> Conversation:
    if asking.case is None:
        raise RuntimeError("a tool is called after the case was read")
    return asking.case.conversation


# --- the move ---------------------------------------------------------------------------------------


def _record_without_call(asking: _Asking, following: _Next) -> RecordedMove:
    with services.current().database.transaction() as connection:
        move = _record(connection, asking, following)
    _note_hold_up_or_raise(following)
    return move


def _record(connection: sa.Connection, asking: _Asking, following: _Next) -> RecordedMove:
    move = RecordedMove(kind=following.kind, items=[], spent=asking.spent.plain())
    move.update(following.plain)  # type: ignore[typeddict-item]  # the keys of RecordedMove that may be recorded
    items = [*asking.items, *following.items]
    text = {**following.text, "items": items}
    if asking.looked:
        text["looked"] = asking.looked
    if not any(text.values()):
        return move
    stored = store_text(connection, asking.batch, text)
    move["text_id"] = stored["text_id"]
    if items:
        move["items"] = [stored]
    if asking.looked:
        move["looked"] = [LookUp(tool=each["tool"], at=each["at"]) for each in asking.looked]
    return move


def _note_hold_up_or_raise(following: _Next) -> None:
    """Write what holds up the run into its attributes. Raises NeedsOperatorError if the step is to fail."""
    run_id = DBOS.workflow_id
    if following.held_up_by is not None and run_id is not None:
        queue = services.current().workflow_client.queue
        queue.describe_hold_up(run_id, following.held_up_by)
    if following.operator_error is not None:
        raise NeedsOperatorError(following.operator_error)


def tool_items(
    tool: str, call: Mapping[str, Any], output: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what the model is told about its call: the tool's output."""
    made = loop.CallTool(tool, "", call["call_id"], tuple(call["other_call_ids"]))
    return loop.tool_result_items(made, output)
