"""What the demo's scripted model reads in a mail: the wish, the orders, the items and how many, the reason.

Patterns over the table in `reading.toml`, in English and German.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from mailagent.domain.mail.language import find_language
from mailagent.domain.refunds.refund import RefundReason

_TEXT = Path(__file__).with_suffix(".toml").read_text("utf-8")
_NUMBERS: dict[str, int] = tomllib.loads(_TEXT)["numbers"]
_PARTS = {"NUMBER": rf"(?:\d{{1,2}}|{'|'.join(_NUMBERS)})", **tomllib.loads(_TEXT)["parts"]}
for _part, _pattern in _PARTS.items():
    _TEXT = _TEXT.replace(f"{{{_part}}}", _pattern)
_TABLES = tomllib.loads(_TEXT)
_WORDS = _TABLES["words"]


class Wish(StrEnum):
    """What a mail asks for."""

    LEGAL = "legal"  # threatens with a lawyer or the bank
    PERSON = "person"
    EXCHANGE = "exchange"
    REPAIR = "repair"  # or the warranty
    INVOICE = "invoice"
    ADDRESS = "address"
    WITHDRAW = "withdraw"  # does not want the refund any more
    CANCEL = "cancel"
    NEWS = "news"  # where is my parcel, where is my money
    QUESTION = "question"  # about refunds or returns in general
    GRATEFUL = "grateful"  # for a refund that was made
    REFUND = "refund"
    STATUS = "status"  # like news, in words that a wish for a refund may have, too
    YES = "yes"  # answers a question of ours
    THANKS = "thanks"
    UNCLEAR = "unclear"


_NO_WISH = (Wish.YES, Wish.THANKS, Wish.UNCLEAR)

# Typed in capitals or not, with an O for a zero or an l for a one.
_ORDER_ID = re.compile(r"\bw[\s#-]?(?=[\dol]*\d\d)([\dol]{4,10})\b", re.IGNORECASE)
_BARE_NUMBER = re.compile(
    r"\b(?:order|oder|ordr|bestell?ung)\s*(?:no\.?|number|nr\.?|nummer)?\s*[:#]?\s*(\d{4,10})\b",
    re.IGNORECASE,
)
_DIGITS = str.maketrans("oOlL", "0011")


def guess_language(*texts: str) -> str:
    """Return the language of the first text that is recognised; English when none is."""
    return next(filter(None, map(find_language, texts)), "en")


def find_order_ids(text: str) -> tuple[str, ...]:
    """Return the order numbers that `text` names, each once, in their order."""
    numbers = [match[1].translate(_DIGITS) for match in _ORDER_ID.finditer(text)]
    numbers += [match[1] for match in _BARE_NUMBER.finditer(text)]
    return tuple(dict.fromkeys(f"W{number}" for number in numbers))


def find_wish(text: str) -> Wish:
    """Return what `text` asks for: the first of the table that it has words of."""
    wish = Wish(_first_match("wishes", text, Wish.UNCLEAR))
    if wish is Wish.STATUS:
        return Wish.NEWS
    if wish is Wish.GRATEFUL:  # "Thanks for the refund! Now the mug is broken."
        others = _GRATEFUL.sub("", _plain(text))
        asked = find_wish(others)
        if asked not in _NO_WISH:
            return asked
        return Wish.QUESTION if _has("more_than_thanks", others) else wish
    sentences = re.findall(r"[^.!?\n]+[.!?\n]?", text)
    rest = [each for each in sentences if not _is_plain_question(each)]
    if wish in (Wish.CANCEL, Wish.REFUND) and rest != sentences:
        asked = find_wish("".join(rest))
        return Wish.QUESTION if asked in _NO_WISH else asked
    told = "".join(each for each in sentences if not each.endswith("?"))
    if wish in _NO_WISH and pick_reason(told) != RefundReason.OTHER:
        return Wish.REFUND
    return wish


# The whole sentence, also if it is broken over two lines.
_GRATEFUL = re.compile(
    rf"(?<![^.!?\n])[^.!?\n]*?(?:{'|'.join(_TABLES['wishes']['grateful'])})[^.!?\n]*[.!?]?"
)


def _is_plain_question(sentence: str) -> bool:
    is_question = sentence.endswith("?") and _has("asks_for_words", sentence)
    return is_question and not _has("asks_for_deed", sentence)


def pick_reason(text: str) -> RefundReason:
    """Return why the customer wants the money back, as far as the words tell."""
    return RefundReason(_first_match("reasons", text, RefundReason.OTHER))


def names_credit(text: str) -> bool:
    """Return whether the customer speaks of store credit in place of money."""
    return _has("store_credit", text)


def names_money(text: str) -> bool:
    return _has("money", text)


def pick_change(text: str) -> str:
    """Return whether the customer wants the same item once more, or another one for it."""
    return "replacement" if _has("same_again", text) else "exchange"


def find_address(text: str) -> str | None:
    """Return what follows "to" or "address:" and has a number in it; None if nothing does."""
    for told in _BEFORE_ADDRESS.split(text)[1:]:
        address = _AFTER_ADDRESS.split(told.strip())[0]
        if re.search(r"\b\d", _BARE_NUMBER.sub("", address)):  # no street: "to change order 1001"
            return "\n".join(" ".join(line.split()) for line in address.splitlines())[:500]
    return None


_BEFORE_ADDRESS = re.compile("|".join(_WORDS["before_address"]), re.I)
_AFTER_ADDRESS = re.compile("|".join(_WORDS["after_address"]), re.I)


def _has(table: str, text: str) -> bool:
    return re.search("|".join(_WORDS[table]), text.lower()) is not None


def _first_match(table: str, text: str, otherwise: str) -> str:
    plain = _plain(text)
    rows = _TABLES[table].items()
    return next((name for name, found in rows if re.search("|".join(found), plain)), otherwise)


def _plain(text: str) -> str:
    lines = (each.strip() for each in text.lower().replace("’", "'").splitlines())
    return _without_typos("\n".join(lines))


def _without_typos(text: str) -> str:
    """Return lower-case text in which words that are nearly one of ours are that one."""

    def corrected(found: re.Match[str]) -> str:
        known, word = _WORDS["often_misspelt"], found[0]
        swapped = [each for each in known if each[0] == word[0] and sorted(each) == sorted(word)]
        near = swapped or difflib.get_close_matches(
            word, known, 1, cutoff=0.83
        )  # "moeny" is swapped
        return near[0] if near else word

    return re.sub(r"[a-zäöüß]{5,}", corrected, text)


def names_item(text: str, name: str) -> bool:
    """Return whether `text` has a word of the item's name, in the singular or the plural, or nearly so."""
    return _amount_named(text, name) != 0


def _amount_named(text: str, name: str) -> int | None:
    """Return how many of an item `text` names: 0 if it does not, None if it does not say how many."""
    said = re.findall(r"\w+", text.lower())
    found: int | None = 0
    for word in (each for each in re.findall(r"\w+", name.lower()) if len(each) > 2):
        near = {word, *difflib.get_close_matches(word, said, 3, cutoff=0.83)} & {*said}
        several = {each for each in said if each in (f"{word}s", f"{word}en", f"{word}n")}
        if not near and not several:
            continue
        noun = "|".join(map(re.escape, near | several))
        patterns = [each.replace("{NOUN}", f"(?:{noun})") for each in _WORDS["amounts"]]
        counts = [count for each in patterns for count in re.findall(each, text.lower(), re.S)]
        if counts:  # of "two mugs, one is broken" the one
            return min(int(_NUMBERS.get(count, count)) for count in counts)
        found = None if several else 1
    return found


def choose_items(
    text: str, items: Sequence[Mapping[str, Any]], one_order: bool = True
) -> list[dict[str, Any]]:
    """Return the items that `text` names, and how many of each; if it names none, all that can be refunded.
    None of them if it names something that was not ordered. `one_order`: the text is about this order alone."""
    left_out = " ".join(_LEFT_OUT.findall(text))
    text = _LEFT_OUT.sub(" ", text)
    listed = [
        item
        for item in items
        if names_item(text, item["name"]) or not names_item(left_out, item["name"])
    ]
    complaint = _KEPT.sub(" ", text)
    if any(names_item(complaint, item["name"]) for item in listed):
        text = complaint
    amounts = {item["item_id"]: _amount_named(text, item["name"]) for item in listed}
    named = [item for item in listed if amounts[item["item_id"]] != 0]
    names = [item["name"] for item in items]
    if one_order and _names_another(text, "two_things" if named else "things", names):
        return []
    return [
        {
            "item_id": item["item_id"],
            "quantity": _at_most(amounts[item["item_id"]], item.get("refundable")),
        }
        for item in named or [each for each in listed if each.get("refundable")] or listed
    ]


# With all that follows in the clause: "all but the mugs and the kettle".
_LEFT_OUT = re.compile(
    rf"(?:{'|'.join(_WORDS['left_out'])}).*?(?=[.,;!?\n]|\b(?:but|aber|sondern)\b|\Z)", re.I
)
_KEPT = re.compile("|".join(_WORDS["kept"]), re.I)


def _at_most(amount: int | None, refundable: int | None) -> int | None:
    """Return how many to ask for; None for all that can be refunded."""
    return amount if amount and refundable and amount < refundable else None


def _names_another(text: str, table: str, names: Collection[str]) -> bool:
    """Return whether `text` names a thing, such as "refund the toaster", that is no item and not its order."""
    found = re.findall("|".join(_WORDS[table]), _without_typos(text.lower()))
    things = {thing for groups in found for thing in groups if thing}
    no_things = {*_WORDS["no_things"].split()}
    return any(
        no_things.isdisjoint(thing.split()) and not any(names_item(thing, name) for name in names)
        for thing in things
    )
