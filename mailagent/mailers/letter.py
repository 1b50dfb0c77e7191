"""A reply as it will be sent: the model's words, and the facts that it named, read from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent import services
from mailagent.agent.reply.composition import Composition, Words
from mailagent.agent.reply.words import find_statements, is_checked, leave_out_statements
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import InboundMail
from mailagent.mailers.facts import Fact, Reader, sentence


@dataclass(frozen=True, slots=True)
class Letter:
    """`text`: words and sentences, in order. `order_ids`: the orders that it speaks of. `sources`: the
    passages that it quotes. `problems`: why it cannot be sent, a sentence each, for the model."""

    text: str
    language: str
    order_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def reader_of(
    connection: sa.Connection, conversation: Conversation, mails: Sequence[InboundMail]
) -> Reader:
    """Return the reader of what a mail that answers these mails may say."""
    verified = bool(mails) and all(mail.identity.proven for mail in mails)
    return Reader(connection, conversation, [mail.mail_id for mail in mails], verified)


def letter_by_person(reader: Reader, text: str) -> Letter:
    """Return a text that a person sends; it speaks of the orders whose refunds the mails asked for."""
    language = find_language(text) or reader.conversation.language or "en"
    return Letter(text, language, tuple(dict.fromkeys(reader.orders_of_mails())))


def write_letter(
    reader: Reader,
    mails: Sequence[InboundMail],
    composition: Composition,
    is_last_try: bool = False,
) -> Letter:
    """Check the words of a composition, and put the sentences of its facts between them.

    To a sender who is not proven only facts are sent: our mail must not carry what a stranger had us say.
    Of a reply with facts, sentences that may state something are left out; if they are questions, only if
    `is_last_try`. All other words that may state something are a problem.
    """
    conversation, language = reader.conversation, composition.language
    has_facts = len(composition.words) < len(composition.parts)
    known = reader.names() | {name for mail in mails for name in mail.from_name.split()}
    check = (language, known, conversation.language)
    locale = services.current().shop.locale_for(language)
    paragraphs: list[str] = []
    facts: list[Fact] = []
    problems: list[str] = []
    for part in composition.parts:
        if isinstance(part, Words):
            words, found = part.words.strip(), find_statements(part.words, *check)
            if found and has_facts:
                words, found = leave_out_statements(words, *check, questions_too=is_last_try)
            problems += map(str, found)
            if reader.verified and words:
                paragraphs.append(words)
            continue
        fact = reader.find(part.fact)
        if fact is None:
            problems.append(f'"{part.fact[:80]}" is no fact on record: name one that a tool showed')
        else:
            facts.append(fact)
            paragraphs.append(sentence(fact, locale))
    if not is_checked(language) and conversation.language not in (None, language[:2]):
        problems.append(f"Write in the customer's language, {conversation.language}")
    not_verified = reader.not_verified()
    if not paragraphs and not_verified is not None:
        paragraphs.append(sentence(not_verified, locale))
    order_ids = [fact.order_id for fact in facts if fact.order_id]
    return Letter(
        "\n\n".join(paragraphs),
        language,
        tuple(dict.fromkeys([*order_ids, *reader.orders_of_mails()])),
        tuple(fact.source for fact in facts if fact.source),
        tuple(problems),
    )
