"""Asks a configuration about past mail. Its tool calls get the recorded answers; a call that the agent did not
make then is answered by the policy, without a change to rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import loop, prompt
from mailagent.agent.reply import composition
from mailagent.backtest.past import Call, Decided, Past, changes, decide_by, tell_act
from mailagent.domain.money import Money
from mailagent.domain.operations.model_cost import TokenPrices, micro_usd
from mailagent.domain.refunds.policy import Approved, Declined
from mailagent.domain.refunds.policy_rules import RefundFacts, decide
from mailagent.domain.refunds.refund import ItemsProblem, RefundReason, WantedItem, price_lines
from mailagent.proposals.facts import (
    MAILS_WITH_PHOTOS_MAX,
    Asked,
    count_photos,
    gather_facts,
    read_facts,
    shipping_of,
)
from mailagent.store import audit, schema
from mailagent.store.mail import raw_mail
from mailagent.store.refunds import orders, refunds
from mailagent.workflows.steps.conversation.batch import batch_reader
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.credit_choice import PayAs
from mailagent.workflows.tools.hand_over import HandOver
from mailagent.workflows.tools.propose_refund import bad_items_output
from mailagent.workflows.tools.tool import Misfit, no_such_order_output, parse_call

logger = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 30.0


@dataclass
class Answer:
    """What a configuration would have done. `beyond`: it looked up something that was not recorded, so it got
    today's rows. `error`: why there is no decision."""

    acts: list[str] = field(default_factory=list)
    decided: Decided | None = None
    beyond: int = 0
    tokens: int = 0
    cost_micro_usd: int = 0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Another model or prompt. `name`: the model's. `prices`: of its tokens. `tries`: how often we ask the same
    while the provider fails."""

    model: services.Model
    instructions: str
    name: str
    prices: TokenPrices | None
    tries: int = 3


def ask(
    past: Past, configuration: Configuration, may_ask: Callable[[], bool] = lambda: True
) -> Answer:
    """Return what the configuration would have done about past mail. `may_ask`: called before each model call;
    if it returns False, the answer has an error instead of a decision."""
    answer, began = Answer(), time.monotonic()
    try:
        _converse(past, configuration, may_ask, answer)
    except Exception as problem:  # the second configuration failed, not the shop
        mail_id = past.batch["mail_ids"][-1]
        logger.warning("mail=%s event=backtest_failed: not compared", mail_id, exc_info=True)
        answer.error = type(problem).__name__
    answer.seconds = time.monotonic() - began
    return answer


def _converse(
    past: Past, configuration: Configuration, may_ask: Callable[[], bool], answer: Answer
) -> None:
    items: list[dict[str, Any]] = []
    spent = loop.Spent()
    while answer.decided is None and not answer.error:
        if spent.why_over(services.current().answer_limits) is not None:
            answer.decided = decide_by(answer.acts, "", True)
        elif not may_ask():
            answer.error = "live mail came first"
        else:
            outcome = _ask_once(past, items, configuration)
            spent = spent.plus(outcome)
            _count(answer, outcome, configuration.prices)
            items += outcome.get("items", [])
            items += _follow(past, answer, loop.next_move(outcome))


def _ask_once(
    past: Past, items: Sequence[dict[str, Any]], configuration: Configuration
) -> Mapping[str, Any]:
    live = services.current()
    tools = registry.schemas(live.policy)
    key = prompt.version(configuration.instructions, tools).cache_key
    text = composition.answer_format(live.templates.phrases(), live.check_model is not None)
    told = [past.case, *items]
    outcome: dict[str, Any] = {}
    for left in reversed(range(configuration.tries)):
        outcome = configuration.model.ask(configuration.instructions, told, tools, key, "", text)
        if outcome["kind"] != "retry" or not left:
            break
        time.sleep(min(outcome.get("after_seconds") or 1.0, LONGEST_PAUSE_SECONDS))
    return outcome


def _count(answer: Answer, outcome: Mapping[str, Any], prices: TokenPrices | None) -> None:
    usage = outcome.get("usage") or {}
    answer.tokens += usage.get("input", 0) + usage.get("output", 0)
    answer.cost_micro_usd += micro_usd(prices, usage) if prices else 0


def _follow(past: Past, answer: Answer, move: loop.Move) -> list[dict[str, Any]]:
    """Note what a move decides, and return what the model is told of it."""
    match move:
        case loop.Reply(text):
            answer.decided = decide_by(answer.acts, text, False)
        case loop.CallTool() as call:
            # Keep no snapshot open while we ask the model: the database ends an idle transaction.
            with services.current().database.snapshot() as connection:
                return _use(connection, past, answer, call)
        case loop.AskPerson():
            answer.decided = decide_by(answer.acts, "", True)
        case loop.AskAgain(why=why) | loop.AskOperator(why):
            answer.error = why or "no answer"
    return []


def _use(
    connection: sa.Connection, past: Past, answer: Answer, call: loop.CallTool
) -> list[dict[str, Any]]:
    parsed = parse_call(registry.offered(services.current().policy), call.name, call.arguments)
    if isinstance(parsed, Misfit):
        return loop.tool_result_items(call, parsed.output)
    if isinstance(parsed, HandOver):
        answer.decided = decide_by(answer.acts, "", True)
        return []
    arguments = parsed.model_dump(mode="json")
    if changes(call.name):
        output = _answer_change(connection, past, call.name, arguments)
        answer.acts.append(tell_act(call.name, arguments, output))
    else:
        output = _look_up(connection, past, answer, call.name, arguments)
    return loop.tool_result_items(call, output)


def _recorded(past: Past, name: str, arguments: Mapping[str, Any]) -> Call | None:
    wanted = (name, _without_money(arguments))
    return next(
        (each for each in past.calls if (each.name, _without_money(each.arguments)) == wanted), None
    )


def _without_money(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a shop without store credit has them, unless it was chosen."""
    unchosen = (PayAs.MONEY, PayAs.NO_CHOICE)
    return {name: arguments[name] for name in arguments if arguments[name] not in unchosen}


def _look_up(
    connection: sa.Connection, past: Past, answer: Answer, name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    known = _recorded(past, name, arguments)
    if known is not None:
        return known.output
    answer.beyond += 1
    return registry.run(name, batch_reader(connection, past.batch), arguments)


# --- what would change something ----------------------------------------------------------------------


def _answer_change(
    connection: sa.Connection, past: Past, name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    known = _recorded(past, name, arguments)
    if name != "propose_refund":
        unknown = {"error": "not_on_record", "say": "Nothing was done. Answer without it."}
        return known.output if known else unknown
    if known is None:
        return _propose(connection, past, arguments)
    facts = _facts_then(connection, past, known)
    return known.output if facts is None else {**known.output, **_verdict(facts, past)}


def _facts_then(connection: sa.Connection, past: Past, call: Call) -> RefundFacts | None:
    """Return the facts by which the policy decided on a call then, if it did."""
    table, mail_ids, order_id = schema.refunds.c, past.batch["mail_ids"], call.arguments["order_id"]
    match call.output.get("outcome"):
        case "approved" | "needs_manager":
            made = table.order_id == order_id, table.mail_id.in_(mail_ids)
            found = connection.scalars(sa.select(table.policy_facts).where(*made)).all()
        case "declined":
            acts = audit.list_of_mails(connection, order_id, audit.DECLINED, mail_ids)
            found = [each.details["facts"] for each in acts if "facts" in each.details]
        case _:
            return None
    items = {each["item_id"] for each in call.arguments["items"]}
    known = [each for each in map(read_facts, found) if each.reason == call.arguments["reason"]]
    named = [each for each in known if {line.item_id for line in each.lines} <= items]
    # Of several, those with the most items. Items that were refunded before are in none.
    return max(named, key=lambda each: len(each.lines), default=None)


def _verdict(facts: RefundFacts, past: Past) -> dict[str, Any]:
    decision = decide(facts, services.current().policy, past.at)
    if isinstance(decision, Declined):
        return {"outcome": "declined", "reason": decision.reason.value}
    return {"outcome": "approved" if isinstance(decision, Approved) else "needs_manager"}


def _propose(
    connection: sa.Connection, past: Past, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Answer a refund that was not asked for then, as the policy would have decided."""
    order_id = arguments["order_id"]
    found = orders.find_of_conversation(connection, order_id, past.batch["conversation_id"])
    if found is None or not past.batch["verified"]:
        return no_such_order_output(order_id)
    order, every = found[0], refunds.list_of_order(connection, found[0].order_id)
    earlier = [each for each in every if each.requested_at < past.at]
    later = sum(each.held.minor for each in every if each.requested_at >= past.at)
    try:
        wanted = [WantedItem(**item) for item in arguments["items"]]
        lines = price_lines(order, wanted, earlier)
    except ItemsProblem as problem:
        return bad_items_output(problem)
    shipping, reason = shipping_of(order, lines, earlier), RefundReason(arguments["reason"])
    asked = Asked(order, lines, shipping, reason, earlier)
    mails = raw_mail.list_with_files(
        connection, past.batch["conversation_id"], MAILS_WITH_PHOTOS_MAX
    )
    facts = gather_facts(connection, asked, *count_photos(mails), sent_before=past.at)
    # Refunds made since then did not reduce the balance then.
    remaining = Money(facts.remaining.minor + later, order.currency)
    amount = min(asked.worth, remaining) if remaining.minor else asked.worth
    verdict = _verdict(replace(facts, remaining=remaining, amount=amount), past)
    fact = f"{'declined' if verdict['outcome'] == 'declined' else 'refund'}/{order.order_id}"
    told = f"{amount}: {' '.join(str(each) for each in verdict.values())}."
    return {**verdict, "facts": {fact: told}, "amount": str(amount), "say": "Name the fact."}
