"""A reply as it will be sent: the phrases and facts that the model named, with the facts read from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent.reply.composition import Composition, FactName, PhraseName, Words
from mailagent.agent.reply.words import find_statements
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import InboundMail, are_proven
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.mailers.fact import Fact, sentence
from mailagent.mailers.facts import Reader
from mailagent.store import audit


@dataclass(frozen=True, slots=True)
class CreditOffer:
    """The sentence that offers store credit for an order. `details`: its bonus in percent, and the refund or
    the units that it is for."""

    order_id: str
    words: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Letter:
    """A reply as text. `text`: what stands between greeting and closing. `order_ids`: the orders that it speaks
    of. `sources`: the passages that it quotes. `problems`: why it cannot be sent, a sentence each, for the
    model. `composition`: what it was written from, as JSON."""

    text: str
    language: str
    order_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    composition: str | None = None
    credit_offers: tuple[CreditOffer, ...] = ()


def reader_of(
    connection: sa.Connection, conversation: Conversation, mails: Sequence[InboundMail]
) -> Reader:
    """Return a reader of the facts that a mail in answer to these mails may tell."""
    mail_ids = [mail.mail_id for mail in mails]
    return Reader(connection, conversation, mail_ids, are_proven(mails))


def letter_by_person(reader: Reader, text: str) -> Letter:
    """Return the letter of a text that a person sends. It speaks of the orders that the mails are about: see
    `Reader.orders_of_mails`."""
    language = find_language(text) or reader.conversation.language or "en"
    return Letter(text, language, tuple(dict.fromkeys(reader.orders_of_mails())))


def find_harmless_words(
    reader: Reader, mails: Sequence[InboundMail], composition: Composition
) -> list[str]:
    """Return the words in which the lists find nothing. No words to a sender who is not proven, and none in a
    mail without an order's record, because no record would contradict them."""
    facts = (reader.find(part.fact) for part in composition.parts if isinstance(part, FactName))
    if not reader.proven or not (
        reader.orders_of_mails() or any(fact and fact.order_id for fact in facts)
    ):
        return []
    language, written = composition.language, reader.conversation.language
    called = (name for mail in mails for name in mail.from_name.split())
    # A sender may be called "paid": such a name stays forbidden.
    names = {each for each in called if not find_statements(f"{each}?", language, (), written)}
    check = (language, reader.names() | names, written)
    return [words for words in composition.words if not find_statements(words, *check)]


def write_letter(reader: Reader, composition: Composition) -> Letter:
    """Write the phrases and facts of a composition, and its words, which the caller must have checked.

    To a sender who is not proven only facts are sent: our mail must not carry what a stranger had us say.
    """
    live = services.current()
    composition = _in_their_language(reader, composition)
    locale = live.shop.locale_for(composition.language)
    phrases = live.templates.phrases(locale)
    pieces: list[tuple[bool, str]] = []  # True for a phrase: phrases in a row are one paragraph
    facts: list[Fact] = []
    problems: list[str] = []
    for part in composition.parts:
        match part:
            case FactName(fact="not_verified") if not reader.proven:
                pass  # stands below the reply, with the code
            case FactName(fact=fact_id) if fact := reader.find(fact_id):
                facts.append(fact)
                pieces.append((False, sentence(fact, locale)))
            case FactName(fact=fact_id):
                problems.append(
                    f'"{fact_id[:80]}" is no fact that a tool showed: name one of those'
                )
            case PhraseName(phrase="thanks_photos") if not reader.has_photo():
                pass
            case PhraseName(phrase=phrase_id) if phrase_id not in phrases:
                problems.append(f'"{phrase_id[:80]}" is no phrase of the list')
            case PhraseName(phrase=phrase_id) if reader.proven:
                pieces.append((True, phrases[phrase_id]))
            case Words(words=words) if reader.proven:
                pieces.append((False, words.strip()))
    named = [each.order_id for each in facts if each.order_id]
    order_ids = tuple(dict.fromkeys([*named, *reader.orders_of_mails()]))
    untrue = {phrases.get(each) for each in _presuming(facts, bool(order_ids))}
    pieces = [each for each in dict.fromkeys(pieces) if each[1] not in untrue]
    pieces = [each for each, after in pairwise([*pieces, (True, "")]) if not _points(each, after)]
    not_verified = reader.not_verified()
    if not pieces and not_verified is not None:
        pieces.append((False, sentence(not_verified, locale)))
    if not pieces and not problems:
        problems.append("Nothing of it can be sent: name facts and phrases")
    return Letter(
        _paragraphs(pieces),
        composition.language,
        order_ids,
        tuple(fact.source for fact in facts if fact.source),
        tuple(problems),
        composition.model_dump_json(),
        tuple(_credit_offers(facts, locale)),
    )


def _credit_offers(facts: Sequence[Fact], locale: str) -> Iterator[CreditOffer]:
    for each in facts:
        if each.kind == "store_credit" and each.order_id:
            details = {name: each.values[name] for name in ("percent", "refund_id", "units")}
            yield CreditOffer(each.order_id, sentence(each, locale), details)


def record_credit_offers(
    reader: Reader, letter: Letter, outbound_id: str, is_again: bool = False
) -> None:
    """Record in the audit log what a mail offers as store credit, unless a person has taken it out. What is for
    no refund and no units is no offer; a mail that is written again (`is_again`) then takes back what it had
    offered."""
    now = services.current().now()
    for offer in letter.credit_offers:
        is_offer = offer.details["refund_id"] or offer.details["units"]
        if offer.words in letter.text and (is_offer or is_again):
            details = {"outbound_id": outbound_id, **offer.details}
            audit.record(
                reader.connection, now, audit.AGENT, audit.CREDIT_OFFERED, offer.order_id, details
            )


def _in_their_language(reader: Reader, composition: Composition) -> Composition:
    """Return a composition in the language of the newest mail that is clearly in one, and without its words if
    the model named another one. The model's stays if a later mail seems to be in it."""
    named = composition.language.partition("-")[0]
    for mail in reversed(reader.mails):
        if find_language(mail.new_text) == named:
            break
        if written := find_language(mail.new_text, surely=True):
            return composition.keep_words(()).model_copy(update={"language": written})
    return composition


def _presuming(facts: Sequence[Fact], has_record: bool) -> Iterator[str]:
    """Yield the phrases that would tell of an answer, a decision or a record that the reply does not have."""
    if not any(fact.kind != "support_address" for fact in facts):
        yield "sorry_answer"
    if not has_record:
        yield "see_record"
    if not any(map(_is_decision, facts)):
        yield "cannot_change_decision"


def _is_decision(fact: Fact) -> bool:
    waits = RefundStatus.AWAITING_APPROVAL.value
    made = [each for each in fact.values.get("refunds", ()) if each["status"] != waits]
    return fact.kind == "declined" or bool(made)


def _points(piece: tuple[bool, str], after: tuple[bool, str]) -> bool:
    """Return whether a piece is a phrase that points to a fact, and no fact follows it."""
    return piece[0] and piece[1].endswith(":") and after[0]


def _paragraphs(pieces: Sequence[tuple[bool, str]]) -> str:
    grouped = groupby(pieces, key=itemgetter(0))
    return "\n\n".join(
        (" " if are_phrases else "\n\n").join(text for _, text in group)
        for are_phrases, group in grouped
    )
