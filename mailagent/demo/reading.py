"""What the demo's scripted model reads in a mail: the wish, the orders, the items and how many, the reason.

Patterns over the table in `reading.toml`, in English and German.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import defaultdict
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
    PART = "part"  # of the money
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
    r"\b(?:order|oder|ordr|bestell?ung)\s*+(?:no\.?|number|nr\.?|nummer)?\s*+[:#]?\s*+(\d{4,10})\b",
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
    text = _any_of("refused").sub(" ", _plain(text))
    wish = Wish(_first_match("wishes", text, Wish.UNCLEAR))
    if wish is Wish.STATUS:
        return Wish.NEWS
    if wish is Wish.GRATEFUL:  # "Thanks for the refund! Now the mug is broken."
        others = _GRATEFUL.sub("", text)
        asked = find_wish(others)
        if asked not in _NO_WISH:
            return asked
        return Wish.QUESTION if says("more_than_thanks", others) else wish
    sentences = re.findall(r"[^.!?\n]+[.!?\n]?", text)
    rest = [each for each in sentences if not _is_plain_question(each)]
    if wish in (Wish.CANCEL, Wish.REFUND) and rest != sentences:
        asked = find_wish("".join(rest))
        return Wish.QUESTION if asked in _NO_WISH else asked
    told = "".join(each for each in sentences if not each.endswith("?"))
    complains = pick_reason(_any_of("no_goods").sub("", told)) is not RefundReason.OTHER
    return Wish.REFUND if complains and wish in _NO_WISH else wish


# The whole sentence, also if it is broken over two lines.
_GRATEFUL = re.compile(
    rf"(?<![^.!?\n])[^.!?\n]*?(?:{'|'.join(_TABLES['wishes']['grateful'])})[^.!?\n]*[.!?]?"
)


def _is_plain_question(sentence: str) -> bool:
    is_plain = says("asks_for_words", sentence) and not says("asks_for_deed", sentence)
    return (sentence.endswith("?") and is_plain) or says("asks_to_be_told", sentence)


def pick_reason(text: str) -> RefundReason:
    """Return why the customer wants the money back, as far as the words tell."""
    return RefundReason(_first_match("reasons", text, RefundReason.OTHER))


def find_address(text: str) -> str | None:
    """Return what follows "address:" or else "to" and has a number in it; None if nothing does."""
    for before in _WORDS["before_address"]:
        for told in re.split(before, text, flags=re.I)[1:]:
            address = _any_of("after_address").split(told.strip())[0]
            if re.search(r"\b\d", _BARE_NUMBER.sub("", address)):  # not "change order 1001"
                return "\n".join(" ".join(line.split()) for line in address.splitlines())[:500]
    return None


def says(table: str, text: str) -> bool:
    """Return whether `text` has words of one of the tables, such as "store_credit"."""
    return _any_of(table).search(text) is not None


def _any_of(table: str) -> re.Pattern[str]:
    return re.compile("|".join(_WORDS[table]), re.I)


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
        # "moeny" is swapped
        return next(iter(swapped or difflib.get_close_matches(word, known, 1, cutoff=0.83)), word)

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
    """Return the items that `text` asks for, and how many of each; none if it leaves open which, or names
    something that was not ordered. `one_order`: the text is about this order alone."""
    names = {each["item_id"]: each["name"] for each in items}
    refundable = {each["item_id"]: each.get("refundable") or 0 for each in items}
    told = _read_clauses(text, names)
    kept = {each for each, n in told["kept"].items() if not 0 < sum(n) < refundable[each]}
    asked = told["asked"].keys() | told["broken"].keys()
    if asked & kept and len(items) > 1:
        return []
    chosen = asked or told["named"].keys() - kept or told["bought"].keys() - kept
    known = any(names_item(text, names[each]) for each in chosen)
    if one_order and _names_another(text, "two_things" if known else "things", names.values()):
        return []
    if told["all"] or not chosen:
        rest = names.keys() - kept
        is_sure = told["whole"] and not told["liked"].keys() - kept and (one_order or not kept)
        if not (told["all"] or is_sure or (one_order and len(items) == 1)):
            return []
        chosen = {each for each in rest if refundable[each]} or rest
    amounts = {each: _amount_wanted(told, each, refundable[each]) for each in names}
    return [{"item_id": each, "quantity": amounts[each]} for each in names if each in chosen]


_Told = Mapping[str, defaultdict[str, list[int]]]


def _amount_wanted(told: _Told, item_id: str, refundable: int) -> int | None:
    """Return how many to ask for; None for all that can be refunded."""
    surely = told["asked"][item_id] or told["broken"][item_id]
    perhaps = told["named"][item_id] or told["bought"][item_id]
    amount = max(surely, default=0) or min(perhaps, default=0) or refundable
    amount = min(amount, refundable - sum(told["kept"][item_id]))  # "all but one mug"
    return amount if 0 < amount < refundable else None


def _read_clauses(text: str, names: Mapping[str, str]) -> _Told:
    """Return by mood, such as "asked", the items that a clause names or goes on about, and the numbers told."""
    told: _Told = defaultdict(lambda: defaultdict(list))
    mood, last = "named", [*names] if len(names) == 1 else []
    clauses = _any_of("clause_end").split(_any_of("except").sub(r"\1\2; except ", text))
    for clause in filter(None, (" ".join(each.split()) for each in clauses)):
        amounts = {item_id: _amount_named(clause, name) for item_id, name in names.items()}
        here = [item_id for item_id, amount in amounts.items() if amount != 0]
        mood = _mood_of(clause, mood, names.values() if here else ())
        if mood == "kept" and not says("number", clause):
            amounts = {}  # "keep the mug" is not one of two
        # But "refund it" is not the camera in "the lens leaks, the camera is fine, refund it".
        settled = {*told["liked"], *told["kept"]} if told["asked"] or told["broken"] else set[str]()
        counted = _any_of("counted").search(clause)
        if here:
            last = here
        elif mood in ("asked", "broken") and says("all_of_it", clause):
            told["all"].update((each, []) for each in names)
        elif counted or (mood in ("kept", "asked", "broken") and says("refers", clause)):
            here = [] if mood == "asked" and settled >= {*last} else last
            one = counted if len(last) == 1 else None  # not the "both" of a camera and a lens
            number = next(filter(None, one.groups())).lower() if one else "0"
            amounts = dict.fromkeys(here, int(_NUMBERS.get(number, number)))
        if says("whole_anyway", clause) or (mood in ("asked", "broken") and says("whole", clause)):
            told["whole"].update((each, []) for each in names)
        for item_id in here:
            told[mood][item_id] += filter(None, [amounts.get(item_id)])
    return told


def _mood_of(clause: str, before: str, names: Collection[str]) -> str:
    """Return what a clause says of its items; of a clause of nothing but `names` what the one `before` says."""
    if clause.startswith("except "):  # "I like all except the mug"
        return "asked" if before in ("liked", "kept", "bought") else "kept"
    words = re.findall(r"\w+", _any_of("fillers").sub(" ", clause))
    if names and all(any(names_item(word, name) for name in names) for word in words):
        return before
    mood = _first_match("moods", clause, "named")
    is_complaint = pick_reason(clause) is not RefundReason.OTHER
    return "broken" if is_complaint and mood in ("named", "bought") else mood


def _names_another(text: str, table: str, names: Collection[str]) -> bool:
    """Return whether `text` names a thing, such as "refund the toaster", that is no item and not its order."""
    found = re.findall("|".join(_WORDS[table]), _without_typos(text.lower()))
    things = {thing for groups in found for thing in groups if thing}
    no_things = {*_WORDS["no_things"].split()}
    return any(
        no_things.isdisjoint(thing.split()) and not any(names_item(thing, name) for name in names)
        for thing in things
    )
