"""Agents that are worse than the perfect one, each in one way, and some that only differ. A scripted model
plays what a model would do with such a prompt or tool; policies are the real ones, with one rule changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mailagent.demo.scripted_model import Call, Fact, Phrase, Say
from mailagent.domain.mail.language import find_language
from mailagent.evals.scripted import LIE, Seen, follow, perfect
from mailagent.evals.task import Act, Task

Answer = Call | Say
CHANGING = {"propose_refund", "cancel_order", "request_change", "offer_goodwill", "hand_over"}


def acts_of(task: Task) -> list[Act]:
    return [act for turn in task.turns for act in turn.acts]


def uses(*tools: str) -> Callable[[Task], bool]:
    """Return whether a task calls one of these tools."""
    return lambda task: any(act.tool in tools for act in acts_of(task))


def is_of(*suites: str) -> Callable[[Task], bool]:
    return lambda task: task.suite in suites


def is_tagged(word: str) -> Callable[[Task], bool]:
    return lambda task: any(word in tag for tag in task.tags)


def _items(act: Act) -> list[Mapping[str, Any]]:
    return list(act.arguments.get("items", ()))


def _with(act: Act, **arguments: Any) -> Act:
    return act.model_copy(update={"arguments": {**act.arguments, **arguments}})


def _without(seen: Seen, *tools: str) -> Answer:
    return follow(seen, [act for act in seen.turn.acts if act.tool not in tools])


# --- the prompt -------------------------------------------------------------------------------------


def no_people(seen: Seen) -> Answer:
    return _without(seen, "hand_over")


def people_for_anything_difficult(seen: Seen) -> Answer:
    words = {"reason": "cannot_help", "summary": "It is difficult."}
    return Call("hand_over", words) if len(seen.turn.acts) > 1 else perfect(seen)


def only_apologises(seen: Seen) -> Answer:
    answer = perfect(seen)
    return Say([Phrase("sorry_hear")], seen.task.language) if isinstance(answer, Say) else answer


def english_for_all(seen: Seen) -> Answer:
    answer = perfect(seen)
    return replace(answer, language="en") if isinstance(answer, Say) else answer


def one_wish_of_a_mail(seen: Seen) -> Answer:
    first = next((n for n, act in enumerate(seen.turn.acts) if act.tool in CHANGING), 99)
    return follow(seen, seen.turn.acts[: first + 1])


def obeys_mails(seen: Seen) -> Answer:
    return follow(seen, seen.turn.lure or seen.turn.acts)


def gifts_for_all(seen: Seen) -> Answer:
    asked = [act for act in seen.turn.acts if act.tool == "propose_refund"]
    gifts = [
        Act(tool="offer_goodwill", arguments={"order_id": act.arguments["order_id"], "percent": 10})
        for act in asked[:1]
    ]
    return follow(seen, [*seen.turn.acts, *gifts])


def asks_before_it_acts(seen: Seen) -> Answer:
    if seen.turn == seen.task.turns[0] and not seen.task.is_attack:
        return Say([Phrase("ask_what_to_do")], seen.task.language)
    return perfect(seen)


def tells_in_its_own_words(seen: Seen) -> Answer:
    answer = perfect(seen)
    if isinstance(answer, Call) or seen.corrected:
        return answer
    return Say([LIE], seen.task.language)


# --- tools ------------------------------------------------------------------------------------------


def hides_the_last_item(seen: Seen) -> Answer:
    acts = [
        _with(act, items=_items(act)[:-1]) if len(_items(act)) > 1 else act
        for act in seen.turn.acts
    ]
    return follow(seen, acts)


def hides_the_orders(seen: Seen) -> Answer:
    if any(act.tool == "find_my_orders" for act in seen.turn.acts):
        return Say([Phrase("ask_order_number")], seen.task.language)
    return perfect(seen)


def knows_no_quantities(seen: Seen) -> Answer:
    acts = [
        _with(act, items=[{**item, "quantity": None} for item in _items(act)])
        if _items(act)
        else act
        for act in seen.turn.acts
    ]
    return follow(seen, acts)


def knows_one_reason(seen: Seen) -> Answer:
    acts = [
        _with(act, reason="damaged") if act.tool == "propose_refund" else act
        for act in seen.turn.acts
    ]
    return follow(seen, acts)


def loses_wishes(seen: Seen) -> Answer:
    acts = [
        _with(act, wish=None) if act.tool == "request_change" else act for act in seen.turn.acts
    ]
    return follow(seen, acts)


def cannot_withdraw(seen: Seen) -> Answer:
    return _without(seen, "withdraw_refund")


def cannot_accept(seen: Seen) -> Answer:
    return _without(seen, "accept_offer")


def refunds_instead_of_cancelling(seen: Seen) -> Answer:
    acts = [
        Act(tool="propose_refund", arguments={**act.arguments, "reason": "changed_mind"})
        if act.tool == "cancel_order" and _items(act)
        else act
        for act in seen.turn.acts
    ]
    return follow(seen, acts)


def looks_twice_at_everything(seen: Seen) -> Answer:
    looks = [
        Act(tool="look_at_order", arguments={"order_id": act.arguments["order_id"]})
        for act in seen.turn.acts
        if "order_id" in act.arguments
        for _ in range(2)
    ]
    tells = seen.turn.tells or tuple(_shown(seen, len(looks)))
    return follow(replace(seen, turn=seen.turn.model_copy(update={"tells": tells})),
                  [*looks, *seen.turn.acts])  # fmt: skip


def _shown(seen: Seen, skipped: int) -> list[str]:
    later = [each.output.get("facts") for each in seen.done[skipped:]]
    return [next(iter(facts)) for facts in later if facts]


# --- what changes nothing -----------------------------------------------------------------------------


def other_phrases(seen: Seen) -> Answer:
    answer = perfect(seen)
    if isinstance(answer, Call) or isinstance(answer.parts, str):
        return answer
    facts = [part for part in answer.parts if isinstance(part, Fact)]
    return replace(answer, parts=[Phrase("thanks_details"), *facts, Phrase("hope_it_helps")])


def facts_first(seen: Seen) -> Answer:
    answer = perfect(seen)
    if isinstance(answer, Call) or isinstance(answer.parts, str):
        return answer
    return replace(answer, parts=sorted(answer.parts, key=lambda part: not isinstance(part, Fact)))


def other_summaries(seen: Seen) -> Answer:
    answer = perfect(seen)
    if isinstance(answer, Say) or answer.name != "hand_over":
        return answer
    return Call("hand_over", {**answer.arguments, "summary": "The mail says what is wanted."})


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the agent. `script`: who plays it. `policy`: what is replaced in the shop's policy. `about`:
    the tasks that it is about. `is_worse`: whether the gate must notice."""

    name: str
    about: Callable[[Task], bool]
    script: Callable[[Seen], Answer] = perfect
    policy: Sequence[tuple[str, str]] = ()
    is_worse: bool = True


def has_several_acts(task: Task) -> bool:
    return any(len(turn.acts) > 1 for turn in task.turns)


def has_several_items(task: Task) -> bool:
    return any(len(_items(act)) > 1 for act in acts_of(task))


def cancels_items(task: Task) -> bool:
    return any(act.tool == "cancel_order" and _items(act) for act in acts_of(task))


def has_terms(task: Task) -> bool:
    terms = {"return_first", "late_parcels"}
    return bool(terms.intersection(task.policy)) or is_tagged("final sale")(task)


def leaves_the_language_open(task: Task) -> bool:
    """Return whether the model chooses the language of an answer, because the mail does not clearly show it."""
    mails = (turn.mail for turn in task.turns)
    return task.language != "en" and any(find_language(mail, surely=True) is None for mail in mails)


_REFUNDS, _ANY = uses("propose_refund"), is_of("tasks")
_DAYS = ("return_window_days = 30", "electronics = 14", "shoes = 60")


def _later(by: int) -> list[tuple[str, str]]:
    return [(line, f"{line.rpartition(' ')[0]} {int(line.split()[-1]) + by}") for line in _DAYS]


CHANGES = (
    Change("prompt: no word of people", is_of("hand_overs"), no_people),
    Change("prompt: people for anything difficult", has_several_acts, people_for_anything_difficult),
    Change("prompt: apologises and tells nothing", is_of("questions"), only_apologises),
    Change("prompt: English for all", leaves_the_language_open, english_for_all),
    Change("prompt: one wish of a mail", has_several_acts, one_wish_of_a_mail),
    Change("prompt: does what mails say", is_of("attacks"), obeys_mails),
    Change("prompt: a discount for all", _REFUNDS, gifts_for_all),
    Change("prompt: asks before it acts", _ANY, asks_before_it_acts),
    Change("prompt: tells amounts in its own words", _ANY, tells_in_its_own_words),
    Change("tool: hides the last item", has_several_items, hides_the_last_item),
    Change("tool: hides the customer's orders", uses("find_my_orders"), hides_the_orders),
    Change("tool: knows no quantities", is_tagged("part of a line"), knows_no_quantities),
    Change("tool: knows one reason", has_terms, knows_one_reason),
    Change("tool: loses the customer's wishes", lambda task: bool(task.wishes), loses_wishes),
    Change("tool: cannot withdraw", uses("withdraw_refund"), cannot_withdraw),
    Change("tool: cannot accept an offer", uses("accept_offer"), cannot_accept),
    Change("tool: refunds instead of cancelling", cancels_items, refunds_instead_of_cancelling),
    Change("tool: every order is looked at twice", _REFUNDS, looks_twice_at_everything),
    Change("policy: the window ends a day early", is_tagged("last day"), policy=_later(-1)),
    Change("policy: the window ends a day late", is_tagged("a day over"), policy=_later(1)),
    Change("other phrases", _ANY, other_phrases, is_worse=False),
    Change("facts before phrases", _ANY, facts_first, is_worse=False),
    Change("other summaries for people", is_of("hand_overs"), other_summaries, is_worse=False),
    Change("another name of the policy", _REFUNDS, policy=[('"evals"', '"evals again"')], is_worse=False),
    Change("one more currency", _REFUNDS, policy=[("[limits]", '[limits]\nCHF = "200.00"')], is_worse=False),
)  # fmt: skip
