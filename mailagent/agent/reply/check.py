"""Is the model's reply true? Its figures, names and claims are held against rows before it is sent.

What a text says is found by `figures`, `contacts` and `claims`; here it is compared with the facts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from mailagent.agent.reply.assertion import Kind
from mailagent.agent.reply.claim_words import AMOUNT
from mailagent.agent.reply.claims import Claim, find_claims, is_true_discount
from mailagent.agent.reply.contacts import find_contacts, find_long_numbers
from mailagent.agent.reply.facts import RefundFact, ReplyFacts
from mailagent.agent.reply.figures import Amount, blank, find_amounts, find_dates
from mailagent.agent.reply.languages import is_readable
from mailagent.agent.reply.spelling import unmask
from mailagent.agent.reply.time_claims import Duration, find_durations
from mailagent.agent.reply.tool_words import find_codes, find_json
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import RefundStatus

REPLY_MAX_LENGTH = 4_000

_QUOTE_LENGTH = 120
_NAME_MAX_WORDS = 2
_ORDER_MAX_DIGITS = 12  # card numbers have 13 and more
_REFERENCE = re.compile(r"#?[^\W_]+(?:-[^\W_]+)*")
_WORD = re.compile(r"[^\W\d_]+")
_FOUR_DIGITS = re.compile(r"\d{4}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBERED_ORDER = re.compile(
    r"\b(?:order|bestellung|commande|pedido)s? ?(?:no\.?|number|nr\.?|nummer|n°|nº|número)? ?[:#]? ?"
    r"(\d{3,})\b",
    re.IGNORECASE,
)

# "The refund was paid at a fee of 0.00 USD" says more than that nothing was paid.
_FEE = re.compile(
    r"fee|charge|cost|deduct|gebühr|kosten|abzug|frais|coût|comisi|gasto|costo|coste", re.IGNORECASE
)
_PAYABLE = frozenset({RefundStatus.APPROVED, RefundStatus.PAID})
_STATUSES: Mapping[Kind, frozenset[RefundStatus]] = {
    Kind.PAID: frozenset({RefundStatus.PAID}),
    Kind.COMING: _PAYABLE,
    Kind.PENDING: _PAYABLE | {RefundStatus.AWAITING_APPROVAL},
    Kind.ASKED: frozenset(RefundStatus),
}
_FALSE: Mapping[Kind, str] = {
    Kind.PAID: "says that a refund was paid, but no such refund is on record as paid",
    Kind.COMING: "says that money was approved or is coming, but no such refund is on record as"
    " approved",
    Kind.PENDING: "speaks of a refund that may come, but no such refund is waiting",
    Kind.ASKED: "says that a refund was asked for, but no such request is on record",
    Kind.MANAGER: "says that a manager decides, but no refund is or was with a manager",
    Kind.GIFT: "promises a discount, a replacement, an exception or a service that no tool gave",
    Kind.CHANGE: "says that we changed an order, an address or a deadline, which no tool can do",
    Kind.WITHDRAWN: "says that a request was withdrawn, but no tool has withdrawn it",
    Kind.TIME: "says when something came, comes or is decided; give dates from the records only",
    Kind.FORECAST: "foretells what a manager will decide, which nobody knows",
}


def find_untrue(text: str, facts: ReplyFacts, customer_text: str = "") -> tuple[str, ...]:
    """Return what is wrong with a reply, a sentence for the model each; nothing if it may be sent.

    `customer_text` is what the customer wrote: numbers from it may be repeated, since "I cannot find
    order W9" is true. Takes time in proportion to the two texts.
    """
    if len(text) > REPLY_MAX_LENGTH:
        return (f"The reply is over {REPLY_MAX_LENGTH} characters. Shorten it.",)
    plain = unmask(text)
    if not any(letter.isalnum() for letter in plain):
        return ("The reply is empty. Write the whole reply.",)
    return tuple(dict.fromkeys(_problems(plain, facts, _CustomerText(customer_text))))


class _CustomerText:
    """What the customer wrote, read only if a reply has something that may be repeated from it: a long thread
    is many times as long as a reply."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def plain(self) -> str:
        return unmask(self._text)

    @cached_property
    def durations(self) -> tuple[Duration, ...]:
        return find_durations(self.plain)

    @cached_property
    def codes(self) -> frozenset[str]:
        return frozenset(code.lower() for code in find_codes(self.plain))

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(_bare(match[0]) for match in _REFERENCE.finditer(self.plain))

    @cached_property
    def foreign(self) -> frozenset[str]:
        """Words with letters beyond ASCII."""
        words = _WORD.findall(self.plain.lower())
        return frozenset(word for word in words if not word.isascii())


def _problems(text: str, facts: ReplyFacts, customer: _CustomerText) -> Iterator[str]:
    names = {word.lower() for name in facts.item_names for word in name.split()}
    if not is_readable(text, names | _customers_name(text, customer)):
        yield "The reply can be checked only in English, German, French or Spanish. Use one of them."
    for contact in find_contacts(text, facts.addresses, facts.public_url, names):
        yield f"The reply has the link or address {_quoted(contact)}, which is not ours. Leave it out."
    for words in _tool_words(text, facts, customer):
        yield f"The reply has {_quoted(words)}, which is a tool's language. Say it in plain words."
    priced = [amount for amount in find_amounts(text) if not amount.bare]
    rest = blank(text, priced)
    dates = find_dates(rest)
    rest = _without_names(blank(rest, dates), facts.item_names)
    bare = [amount for amount in find_amounts(rest) if amount.bare]
    for amount in (*priced, *bare):
        if not (amount.is_nothing or amount.is_one_of(facts.amounts)):
            yield f"The amount {_quoted(amount.text)} is not in our records of this customer."
    for figure in dates:
        if not figure.is_one_of(facts.dates):
            yield f"The date {_quoted(figure.text)} is not in our records of this customer."
    yield from _unknown_durations(rest, facts, customer)
    yield from _unknown_numbers(blank(rest, bare), facts, customer)
    masked = blank(blank(text, [*priced, *bare], AMOUNT), dates)
    for claim in find_claims(masked):
        yield from _claim_problem(claim, text[claim.start : claim.end], facts, (*priced, *bare))


def _tool_words(text: str, facts: ReplyFacts, customer: _CustomerText) -> Iterator[str]:
    """Yield what only a tool writes: JSON, and codes that no row and no customer has."""
    yield from find_json(text)
    codes = find_codes(text)
    if codes:
        ours = " ".join((*facts.order_ids, *facts.item_ids, *facts.item_names, *facts.addresses))
        known = {code.lower() for code in find_codes(ours)} | customer.codes
        yield from (code for code in codes if code.lower() not in known)


def _unknown_durations(text: str, facts: ReplyFacts, customer: _CustomerText) -> Iterator[str]:
    """Yield a problem for each length of time that is neither in the rows nor the customer's word."""
    for duration in find_durations(text):
        known = facts.days | facts.days_between if duration.between_dates else facts.days
        if not (duration.is_one_of(known) or duration.is_repeated_from(customer.durations)):
            yield f"The time {_quoted(duration.text)} is not in our records. Name dates instead."


def _customers_name(text: str, customer: _CustomerText) -> set[str]:
    """Return the customer's own words of another script that `text` repeats, if they may be a name."""
    foreign = [word for word in _WORD.findall(text.lower()) if not word.isascii()]
    repeated = [word for word in foreign if word in customer.foreign]
    return set(repeated) if len(repeated) <= _NAME_MAX_WORDS else set()


def _quoted(text: str) -> str:
    words = " ".join(text.split())
    cut = words if len(words) <= _QUOTE_LENGTH else f"{words[: _QUOTE_LENGTH - 1]}…"
    return f'"{cut}"'


def _without_names(text: str, names: Iterable[str]) -> str:
    """Return `text` without names of items that have digits in them: "Model 4000" is no order."""
    numbered = [re.escape(unmask(name)) for name in names if any(map(str.isdigit, name))]
    if not numbered:
        return text
    pattern = re.compile("|".join(sorted(numbered, key=len, reverse=True)), re.IGNORECASE)
    return pattern.sub(lambda match: " " * len(match[0]), text)


def _unknown_numbers(text: str, facts: ReplyFacts, customer: _CustomerText) -> Iterator[str]:
    """Yield a problem for each number that is neither in the rows nor from the customer."""
    own = {_bare(each) for each in (*facts.order_ids, *facts.item_ids)}
    shapes = _shapes(facts.order_ids)
    numbered = {match[1] for match in _NUMBERED_ORDER.finditer(text)}
    spans = []
    for match in _REFERENCE.finditer(text):
        if _is_made_of(match[0], own):
            spans.append(match.span())
        elif match[0].isalpha():
            continue  # nearly all are plain words, and no number is seen in one
        elif _is_reference(match[0], shapes, numbered) and not _is_made_of(
            match[0], own, customer.numbers
        ):
            spans.append(match.span())
            yield f"The number {_quoted(match[0])} is not in our records of this customer."
    for number in find_long_numbers(_cut_out(text, spans)):
        # The customer's telephone or card number is not repeated either, only what may be an order's.
        if _bare(number) not in customer.numbers or len(number) > _ORDER_MAX_DIGITS:
            yield f"The reply has the number {_quoted(number)}. Give no such numbers."


def _cut_out(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], "_" * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


def _bare(word: str) -> str:
    return word.lstrip("#").upper()


def _is_made_of(word: str, *known: Collection[str]) -> bool:
    """Say whether a word, or each part of one like "W1001-W1002", is among what is known."""

    def is_known(part: str) -> bool:
        return any(_bare(part) in each for each in known)

    return is_known(word) or all(map(is_known, word.split("-")))


def _shapes(order_ids: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of what looks like one of this shop's order numbers.

    Numbers of digits only are too common to be learned; four digits in a row are looked at anyway.
    """
    shapes = {
        re.sub(r"\d+", r"\\d{2,}", re.escape(_bare(order_id)))
        for order_id in order_ids
        if not order_id.lstrip("#").isdigit() and any(map(str.isdigit, order_id))
    }
    return re.compile("|".join(sorted(shapes)) or r"(?!)")


def _is_reference(word: str, shapes: re.Pattern[str], numbered: set[str]) -> bool:
    if word in numbered or shapes.fullmatch(_bare(word)):
        return True
    if word.startswith("#") and any(map(str.isdigit, word)):
        return True
    return bool(_FOUR_DIGITS.search(word)) and not _YEAR.fullmatch(word)


def _claim_problem(
    claim: Claim, sentence: str, facts: ReplyFacts, amounts: Iterable[Amount]
) -> Iterator[str]:
    if claim.kind in (Kind.CHANGE, Kind.TIME):
        true = False
    elif claim.kind is Kind.GIFT:
        said = [each for each in amounts if claim.start <= each.start < claim.end]
        true = not said and is_true_discount(sentence, facts.discounts)
    elif claim.kind is Kind.WITHDRAWN:
        true = _is_withdrawn(sentence, facts)
    elif claim.kind is Kind.FORECAST:
        true = any(refund.by_person and refund.status in _PAYABLE for refund in facts.refunds)
    elif claim.kind is Kind.MANAGER:
        true = any(_is_with_manager(refund) for refund in facts.refunds)
    else:
        said = [each for each in amounts if claim.start <= each.start < claim.end]
        true = _is_on_record(claim.kind, sentence, facts, said)
    if not true:
        yield f"The sentence {_quoted(sentence)} {_FALSE[claim.kind]}."


def _is_with_manager(refund: RefundFact) -> bool:
    undecided = (RefundStatus.AWAITING_APPROVAL, RefundStatus.REJECTED, RefundStatus.EXPIRED)
    return refund.by_person or refund.status in undecided


def _is_on_record(kind: Kind, sentence: str, facts: ReplyFacts, said: Sequence[Amount]) -> bool:
    """Say whether a refund is as the sentence says: in that state, of that order, of that amount."""
    if said and all(each.is_nothing for each in said) and not _FEE.search(sentence):
        return True  # "0.00 USD has been refunded so far"
    orders = _orders_in(sentence, facts)
    refunds = [
        refund
        for refund in facts.refunds
        if refund.status in _STATUSES[kind] and (not orders or refund.order_id in orders)
    ]
    if not refunds:
        return False
    if not said or kind not in (Kind.PAID, Kind.COMING):
        return True
    amounts = {amount for refund in refunds for amount in refund.amounts} | set(_totals(refunds))
    return any(each.is_one_of(amounts) for each in said if not each.is_nothing)


def _orders_in(sentence: str, facts: ReplyFacts) -> set[str]:
    words = {_bare(match[0]) for match in _REFERENCE.finditer(sentence)}
    return {order_id for order_id in facts.order_ids if _bare(order_id) in words}


def _is_withdrawn(sentence: str, facts: ReplyFacts) -> bool:
    """Say whether a refund of an order that is meant was withdrawn, and none of it waits."""
    meant = _orders_in(sentence, facts) or facts.order_ids
    states = {
        order_id: {refund.status for refund in facts.refunds if refund.order_id == order_id}
        for order_id in meant
    }
    return any(
        RefundStatus.WITHDRAWN in found and RefundStatus.AWAITING_APPROVAL not in found
        for found in states.values()
    )


def _totals(refunds: Iterable[RefundFact]) -> Iterator[Money]:
    totals: dict[str, int] = {}
    for refund in refunds:
        totals[refund.total.currency] = totals.get(refund.total.currency, 0) + refund.total.minor
    yield from (Money(minor, currency) for currency, minor in totals.items())
