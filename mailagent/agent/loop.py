"""Decides what the agent does after each answer of the model. Pure: steps and the backtest call it.

Asking the model, using a tool and sleeping belong to the workflows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mailagent.domain.mail.conversation import AnswerLimits, HandOverReason
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.retry import backoff_seconds, share_of

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallTool:
    """Use a tool, then ask again. `other_call_ids`: further calls of the same answer, not done."""

    name: str
    arguments: str
    call_id: str
    other_call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The model has composed its reply. The step that writes it checks it."""

    text: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The model could not answer now. `after_seconds`: the pause that the server asked for, if any; `limited`:
    the server works, and we exceeded its rate limit."""

    after_seconds: float | None
    why: str
    limited: bool = False


@dataclass(frozen=True, slots=True)
class AskOperator:
    """No mail can be answered until an operator has put something right."""

    why: str


@dataclass(frozen=True, slots=True)
class AskPerson:
    """This mail is for a person."""

    reason: HandOverReason
    why: str


Move = CallTool | Reply | AskAgain | AskOperator | AskPerson


def next_move(outcome: Mapping[str, Any]) -> Move:
    """Decide what to do after `outcome`, the plain data that `ChatModel.ask` returned.

    Of several calls in one answer only the first is done: servers may ignore parallel_tool_calls,
    and with money one thing happens at a time. A text beside a call is a preamble, not the reply.
    """
    why = str(outcome.get("why", ""))
    match outcome["kind"]:
        case "done":
            return _after_answer(outcome)
        case "retry":
            return AskAgain(outcome.get("after_seconds"), why, bool(outcome.get("limited")))
        case "operator":
            return AskOperator(why)
        case "person":
            reason = HandOverReason.__members__.get(str(outcome.get("reason")))
            return AskPerson(reason or HandOverReason.MODEL_REFUSED, why)
    raise ValueError(f"a model outcome of kind {outcome['kind']!r} is not known")


def failure_of(outcome: Mapping[str, Any]) -> Failure | None:
    """Return how the model's provider has failed, by the plain data that `ChatModel.ask` returned; None if the
    provider works, whatever it answered to this mail."""
    why = str(outcome.get("why", ""))
    match outcome["kind"]:
        case "operator":
            return Failure(why, needs_operator=True)
        case "retry" if not outcome.get("answered"):
            return Failure(why, wish_seconds=outcome.get("after_seconds") or 0.0)
    return None


def _after_answer(outcome: Mapping[str, Any]) -> Move:
    calls: Sequence[Mapping[str, Any]] = outcome["calls"]
    if calls:
        first = calls[0]
        others = dict.fromkeys(str(call["call_id"]) for call in calls[1:])
        others.pop(first["call_id"], None)
        return CallTool(first["name"], first["arguments"], first["call_id"], tuple(others))
    text = (outcome.get("text") or "").strip()
    return Reply(text) if text else AskAgain(None, "the model's answer was empty")


def tool_result_item(call_id: str, output: Mapping[str, Any]) -> Item:
    """Return the input item that answers one tool call."""
    return {"type": "function_call_output", "call_id": call_id, "output": inert_json(output)}


def tool_result_items(move: CallTool, output: Mapping[str, Any]) -> list[Item]:
    """Return the items that answer `move` and every further call: an unanswered call is refused."""
    refused = {
        "error": "one_call_at_a_time",
        "say": "Nothing was done for this call: make one call, wait for its output, then the next.",
    }
    return [
        tool_result_item(move.call_id, output),
        *(tool_result_item(call_id, refused) for call_id in move.other_call_ids),
    ]


def correction_item(problems: Sequence[str]) -> Item:
    """Return the item that makes the model write its reply again."""
    check = {
        "reply_check": {
            "sent": False,
            "problems": list(problems),
            "say": "Your reply was not sent. Compose the whole reply again without these problems."
            " Look things up with the tools if you need to. If you cannot, call hand_over.",
        }
    }
    return {"role": "user", "content": inert_json(check)}


# Chat templates of local servers read markers such as <|im_start|>, </s> or [INST] in the prompt as
# the end of one speaker and the start of another, wherever they stand.
_MARKER = re.compile(r"<|\[(?=/?[A-Z])")


def inert_json(value: object) -> str:
    """Return `value` as JSON in which no text can pass for a marker of a chat template.

    Other letters stay as they are, which models read better and which costs fewer tokens.
    """
    text = json.dumps(value, ensure_ascii=False)
    # In JSON neither "<" nor "[" before a capital letter can stand outside a string.
    escaped = _MARKER.sub(lambda match: f"\\u{ord(match[0][0]):04x}", text)
    return escaped.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Spent:
    """What answering a batch of mail has cost so far."""

    model_turns: int = 0
    tokens: int = 0
    tool_calls: int = 0
    unusable_replies: int = 0
    provider_retries: int = 0
    # The turn that is reserved for the next call, in milliseconds since 1970.
    turn_ms: int = 0

    def plain(self) -> dict[str, int]:
        """Return this as plain data for a record; `turn_ms` only if there is one."""
        spent = asdict(self)
        return {name: spent[name] for name in spent if spent[name] or name != "turn_ms"}

    def plus(self, outcome: Mapping[str, Any]) -> Spent:
        """Return this plus one outcome of the model, whose turn is over. An empty answer counts as a failed
        attempt."""
        usage = outcome.get("usage") or {}
        failed = isinstance(next_move(outcome), AskAgain)
        answered = outcome["kind"] == "done" and not failed
        return replace(
            self,
            model_turns=self.model_turns + answered,
            tokens=self.tokens + usage.get("input", 0) + usage.get("output", 0),
            tool_calls=self.tool_calls + len(outcome.get("calls") or ()),
            provider_retries=self.provider_retries + failed,
            turn_ms=0,
        )

    def plus_unusable_reply(self) -> Spent:
        """Return this plus one reply that could not be sent."""
        return replace(self, unusable_replies=self.unusable_replies + 1)

    def why_over(self, limits: AnswerLimits) -> HandOverReason | None:
        """Return which of the limits is used up, as the reason for a person to take over. Check before each
        ask, not after.

        `provider_retries` are attempts after the first: with 8 of them a ninth failure is the last.
        """
        if self.unusable_replies >= limits.unusable_replies:
            return HandOverReason.REPLY_NOT_TRUE
        if self.provider_retries > limits.provider_retries:
            return HandOverReason.PROVIDER_DOWN
        spent = (self.model_turns, self.tokens, self.tool_calls)
        most = (limits.model_turns, limits.tokens, limits.tool_calls)
        if any(used >= limit for used, limit in zip(spent, most, strict=True)):
            return HandOverReason.BUDGET_SPENT
        return None


def is_limited_for_long(move: Move, spent: Spent, limits: AnswerLimits) -> bool:
    """Return whether the last retry met the rate limit of the provider: the model works, so the mail can wait
    and needs no person. `spent` counts the failure that led to `move`."""
    is_limited = isinstance(move, AskAgain) and move.limited
    return is_limited and spent.why_over(limits) is HandOverReason.PROVIDER_DOWN


def pause_seconds(move: AskAgain, spent: Spent, run_id: str) -> float:
    """Return how long to sleep before asking again, in seconds: a back-off that doubles, or the pause that the
    server asked for if that is longer, and up to a quarter more.

    The extra depends on the run and the attempt, so that runs refused together do not come back together.
    `spent` counts the failure that led to `move`.
    """
    own = backoff_seconds(max(1, spent.provider_retries), first_seconds=2, longest_seconds=300)
    pause = max(own, move.after_seconds or 0.0)
    return pause * (1 + share_of(f"{run_id}:{spent.provider_retries}") / 4)
