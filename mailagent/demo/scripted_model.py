"""The demo's model: reads a mail, follows tool results, and composes a reply of phrases and facts.

The same input always gives the same turn, so a run that is recovered after a crash continues as it began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailagent.demo import reading
from mailagent.demo.reading import Wish, choose_items, names_item, pick_reason, says
from mailagent.domain.refunds.refund import RefundReason

_MAX_ORDERS = 3  # of one mail; each costs two turns


@dataclass(frozen=True, slots=True)
class Call:
    """Use a tool."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of a reply: a fact that a tool showed."""

    fact_id: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A part of a reply: a sentence of the shop, `templates/mail/_phrases.txt`."""

    phrase_id: str


# A text is words of the model's own.
Part = str | Phrase | Fact


@dataclass(frozen=True, slots=True)
class Say:
    """End the turn with this reply: words, or parts in order."""

    parts: str | Sequence[Part]
    language: str = "en"

    @property
    def text(self) -> str:
        """Return the reply as the model writes it: JSON."""
        parts = [self.parts] if isinstance(self.parts, str) else self.parts
        plain = [_plain(part) for part in parts]
        return json.dumps({"language": self.language, "parts": plain}, ensure_ascii=False)


def _plain(part: Part) -> dict[str, str]:
    if isinstance(part, str):
        return {"words": part}
    return {"phrase": part.phrase_id} if isinstance(part, Phrase) else {"fact": part.fact_id}


Turn = Call | Say

# What no tool can do: a person sees to it, and reads this.
_FOR_PEOPLE = {
    Wish.LEGAL: "The customer speaks of a lawyer, a court or the bank",
    Wish.INVOICE: "The customer asks for an invoice",
    Wish.REPAIR: "The customer asks for a repair",
    Wish.PART: "The customer asks for a part of the money",
}
_TOLD_BY_A_PASSAGE = {Wish.UNCLEAR, Wish.NEWS, Wish.QUESTION, Wish.INVOICE, Wish.REPAIR}


@dataclass(frozen=True, slots=True)
class ToolResult:
    name: str
    arguments: Mapping[str, Any]
    output: Mapping[str, Any]


Output = Mapping[str, Any]
Results = Sequence[ToolResult]
Step = list[Fact] | Turn  # of the work on an order: its facts when it is done


@dataclass(frozen=True, slots=True)
class CustomerRequest:
    """One request as the model sees it. `text` also holds the subject and an earlier request that it continues;
    `newest`, of an answer, does not."""

    newest: str
    text: str
    wish: Wish
    language: str
    order_ids: tuple[str, ...]
    says_yes: bool = False
    pay_as: str = "no_choice"


def read_request(content: str) -> CustomerRequest:
    """Return the request in the first user item's JSON text.

    Raises ValueError when it is not the JSON object that mailagent sends.
    """
    facts = json.loads(content)
    if not isinstance(facts, dict) or not isinstance(facts.get("mails"), list):
        raise ValueError("the first user item is not a request: an object with `mails` is expected")
    mails, history = facts["mails"], facts.get("history", [])
    bodies = "\n".join(str(mail.get("text", "")) for mail in mails)
    text = "\n\n".join(f"{mail.get('subject', '')}\n\n{mail.get('text', '')}" for mail in mails)
    said = [str(item.get("text", "")) for item in history]
    own = "\n".join(str(item["text"]) for item in history if item.get("from") == "customer")
    # The subject of an answer, or of thanks, repeats an earlier wish: the body says what is wanted now.
    wish = reading.find_wish(bodies)
    if not own and wish is not Wish.GRATEFUL:
        wish = reading.find_wish(text)
    says_yes = wish is Wish.YES
    wants_credit = says("store_credit", bodies) or (says_yes and says("store_credit", own))
    if own and wish is Wish.UNCLEAR and wants_credit:
        wish, text = Wish.REFUND, f"{text}\n\n{own}"
    before = reading.find_wish(own)
    named = reading.find_order_ids(bodies)
    goes_on = wish in (Wish.YES, Wish.UNCLEAR) or (wish is Wish.REFUND and not named)
    if own and goes_on and before in (Wish.REFUND, Wish.NEWS):
        wish, text = (wish if wish is Wish.REFUND else before), f"{text}\n\n{own}"
    earlier = reading.find_order_ids("\n".join(said[::-1]))[:1]
    order_ids = (named or reading.find_order_ids(text) or earlier)[:_MAX_ORDERS]
    language = reading.guess_language(bodies, text, own)
    pay_as = "store_credit" if wants_credit else "money" if says("money", bodies) else "no_choice"
    newest = bodies if own else text
    return CustomerRequest(newest, text, wish, language, order_ids, says_yes, pay_as)


def read_passages(instructions: str) -> dict[str, str]:
    """Return the title of each passage of the shop's knowledge that the instructions tell, by its fact id."""
    lines = [line for line in instructions.splitlines() if line.startswith('["knowledge/')]
    return {fact_id: title for fact_id, title, _text in map(json.loads, lines)}


def next_turn(
    request: CustomerRequest,
    results: Sequence[ToolResult],
    corrected: bool = False,
    passages: Mapping[str, str] | None = None,
) -> Turn:
    """Decide what the model does next. `corrected`: the app did not send the last reply. `passages`: titles of
    the shop's knowledge, by fact id."""
    if corrected:
        return _hand_over("cannot_help", request)
    at_once = _answer_at_once(request, passages or {})
    if at_once is not None:
        return at_once
    order_ids = request.order_ids or _orders_meant(request, results)
    if isinstance(order_ids, Call | Say):
        return order_ids
    facts: list[Fact] = []
    for order_id in order_ids:
        found = _work_on(request, results, order_id)
        if isinstance(found, Call | Say):
            return found
        facts += found
    return _say(request, _opening(request), *dict.fromkeys(facts))


def _answer_at_once(request: CustomerRequest, passages: Mapping[str, str]) -> Turn | None:
    """Return the answer to a mail that is about no order of the customer's, or that a person has to see."""
    is_general = not request.order_ids or request.wish is Wish.REPAIR
    passage = _passage_about(request, passages) if is_general else None
    if passage is not None and request.wish in _TOLD_BY_A_PASSAGE:
        return _say(request, Phrase("thanks_message"), Fact(passage))
    match request.wish:
        case Wish.PERSON:
            return _hand_over("customer_asked", request)
        case Wish.THANKS | Wish.GRATEFUL:
            return _say(request, Phrase("welcome"))
        case wish if wish in _FOR_PEOPLE:
            return _hand_over("cannot_help", request)
        case Wish.QUESTION if not request.order_ids:
            return _hand_over("not_in_knowledge", request)
        case Wish.UNCLEAR | Wish.YES if not request.order_ids:
            unclear = ("thanks_message", "ask_which_order", "ask_what_to_do")
            return Say([Phrase(each) for each in unclear], request.language)
    return None


def _opening(request: CustomerRequest) -> Phrase:
    """Return thanks, or sympathy that fits the reason of a refund."""
    if request.wish is Wish.WITHDRAW:
        return Phrase("thanks_telling")
    if request.wish is not Wish.REFUND:
        return Phrase("thanks_message")
    reason = pick_reason(request.text)
    if reason is RefundReason.DAMAGED and _NOT_WORKING.search(request.text.lower()):
        return Phrase("sorry_not_working")
    return Phrase(_SYMPATHY.get(reason, "thanks_message"))


_NOT_WORKING = re.compile("work|turn on|funktioniert")
_SYMPATHY = {
    RefundReason.DAMAGED: "sorry_damaged",
    RefundReason.NOT_DELIVERED: "sorry_waiting",
    RefundReason.WRONG_ITEM: "sorry_wrong_item",
    RefundReason.NOT_AS_DESCRIBED: "sorry_not_as_expected",
}


def _passage_about(request: CustomerRequest, passages: Mapping[str, str]) -> str | None:
    """Return the passage whose title has most of the longer words of a mail; None if none has two of them, or
    one at the end of the title. Of a question one word is enough."""
    text = request.text
    words = {word[:5] for word in re.findall(r"[a-z]{4,}", text.casefold())} - _COMMON
    if re.search(r"\b(?:can|may) i\b", text.casefold()):
        words.add("canno")  # "Items that cannot be returned"
    needed = 1 if request.wish is Wish.QUESTION else 2
    best, most = None, 0
    for fact_id, title in passages.items():
        stems = [word[:5] for word in re.findall(r"[a-z]{4,}", title.casefold())]
        shared = len(words & (set(stems) - _COMMON))
        # "When will my lamp arrive?" is not about when a refund arrives.
        ends_with_one = stems[-1:] != [] and stems[-1] in words and request.wish is not Wish.NEWS
        if shared > most and shared + ends_with_one >= needed:
            best, most = fact_id, shared
    return best


_COMMON = frozenset("where what when which does your have with that this order parce item".split())


def _orders_meant(request: CustomerRequest, results: Results) -> tuple[str, ...] | Turn:
    """Find out which order a letter without a number is about."""
    found = _find(results, "find_my_orders")
    if found is None:
        return Call("find_my_orders", {})
    if "error" in found:
        facts = _facts_of(found)
        return _say(request, _opening(request), *facts) if facts else _give_up(request)
    orders = found.get("orders", [])
    named = [each for each in orders if any(names_item(request.text, i) for i in each["items"])]
    meant = named or orders
    if len(meant) == 1:
        return (str(meant[0]["order_id"]),)
    if not orders or request.wish is Wish.NEWS:
        return _say(request, _opening(request), Fact("my_orders"))
    return _ask_once(request, "ask_which_order", "my_orders")


def _work_on(request: CustomerRequest, results: Results, order_id: str) -> Step:
    """Look at an order, and do what is wished; then name what came of it."""
    if request.wish is Wish.WITHDRAW:
        return _use(request, results, "withdraw_refund", {"order_id": order_id})
    order = _find(results, "look_at_order", order_id)
    if order is None:
        return Call("look_at_order", {"order_id": order_id})
    if "error" in order:
        return _facts_of(order) or _give_up(request)
    match request.wish:
        case Wish.REFUND:
            return _propose(request, results, order_id, order)
        case Wish.CANCEL:
            return _cancel(request, results, order_id, order)
        case Wish.EXCHANGE | Wish.ADDRESS:
            return _change(request, results, order_id, order)
    lists = {"parcels": "parcels", "refund": "refunds", "remedy": "requests"}
    kinds = ["order", *(kind for kind, name in lists.items() if order.get(name))]
    return [Fact(f"{kind}/{order['order_id']}") for kind in kinds]


def _propose(request: CustomerRequest, results: Results, order_id: str, order: Output) -> Step:
    if order.get("offer") and request.says_yes:
        return _use(request, results, "accept_offer", {"order_id": order_id})
    items = _items_meant(request, order)
    if not items:
        return _ask_once(request, "ask_which_items", f"order/{order_id}")
    wish = {"order_id": order_id, "items": items, "reason": str(pick_reason(request.text))}
    if "store_credit" in order:
        wish["pay_as"] = request.pay_as
    done = _use(request, results, "propose_refund", wish, facts=None)
    if not isinstance(done, list):
        return done
    return [each for each in done if each == done[0] or each.fact_id.startswith("store_credit/")]


def _items_meant(request: CustomerRequest, order: Output) -> list[dict[str, Any]]:
    """Return the items that the newest mail asks for; those of all mails if it names none."""
    items = order.get("items", [])
    names_one = any(names_item(request.newest, each["name"]) for each in items)
    text = request.newest if names_one else request.text
    return choose_items(text, items, one_order=len(request.order_ids) < 2)


def _change(request: CustomerRequest, results: Results, order_id: str, order: Output) -> Step:
    """Ask for an exchange, a replacement or another address."""
    is_address = request.wish is Wish.ADDRESS
    address = reading.find_address(request.text) if is_address else None
    if is_address and address is None:
        return _say(request, Phrase("thanks_message"), Phrase("ask_new_address"))
    items = [] if is_address else _items_meant(request, order)
    if not items and not is_address:
        return _give_up(request)
    swap = "replacement" if says("same_again", request.text) else "exchange"
    kind, reason = "change_address" if is_address else swap, str(pick_reason(request.text))
    asked = {"order_id": order_id, "kind": kind, "items": items, "reason": reason, "wish": address}
    return _use(request, results, "request_change", asked)


def _cancel(request: CustomerRequest, results: Results, order_id: str, order: Output) -> Step:
    items = order.get("items", [])
    named = any(names_item(request.text, each["name"]) for each in items)
    items = choose_items(request.text, items, len(request.order_ids) < 2) if named else []
    if named and not items:
        return _ask_once(request, "ask_which_items", f"order/{order_id}")
    return _use(request, results, "cancel_order", {"order_id": order_id, "items": items}, facts=2)


def _use(
    request: CustomerRequest, results: Results, name: str, arguments: Output, facts: int | None = 1
) -> Step:
    """Use a tool; then name the first `facts` of what came of it."""
    outcome = _find(results, name, arguments["order_id"])
    if outcome is None:
        return Call(name, arguments)
    return _facts_of(outcome)[:facts] or _give_up(request)


def _facts_of(output: Mapping[str, Any]) -> list[Fact]:
    return [Fact(fact_id) for fact_id in output.get("facts", {})]


def _give_up(request: CustomerRequest) -> Call:
    return _hand_over("cannot_help", request)


def _hand_over(reason: str, request: CustomerRequest) -> Call:
    opening = " ".join(request.text.split())[:200]
    about = f"{_FOR_PEOPLE[request.wish]}. " if request.wish in _FOR_PEOPLE else ""
    return Call("hand_over", {"reason": reason, "summary": f"{about}The customer wrote: {opening}"})


def _say(request: CustomerRequest, *parts: Part) -> Say:
    """Return a whole reply: the parts and a phrase to close."""
    return Say((*parts, Phrase("just_answer")), request.language)


def _ask_once(request: CustomerRequest, phrase: str, fact: str) -> Turn:
    """Return a question; an answer that does not tell goes to a person."""
    if request.newest != request.text:
        return _give_up(request)
    return Say((_opening(request), Phrase(phrase), Fact(fact)), request.language)


def _find(results: Results, name: str, order_id: str | None = None) -> Output | None:
    """Return the last output of a tool, for one order where an order is named."""
    for result in reversed(results):
        if result.name == name and order_id in (None, result.arguments.get("order_id")):
            return result.output
    return None
