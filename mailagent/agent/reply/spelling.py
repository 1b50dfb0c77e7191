"""One spelling for every word of a reply: no hidden letters, no disguises, no lost accents.

Nothing here knows what a word means; the words worth restoring come from `claim_words`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

from mailagent.agent.reply import claim_words as say

# Letters with marks that English, German, French and Spanish have; others disguise a word, or are of
# a language that cannot be checked.
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzäöüßàâçéèêëîïôœùûÿáíóúñ")

_MARKUP_INSIDE = re.compile(r"(?<=\w)[*~`]+(?=\w)|(?<=\w)__+(?=\w)")
# "p a i d", "P.A.I.D", "r-e-f-u-n-d": one letter, one mark, three times and more
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ .*_~-][^\W\d_](?![^\W_])){2,}")
_DISGUISED = re.compile(r"(?<![\w#])[^\W\d_][^\W_]*\d[^\W_]*(?![\w])")
_HYPHENED = re.compile(r"(?<![^\W\d_])[^\W\d_]+(?:-[^\W\d_]+)+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_PAIR = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,12}) (?=([^\W\d_]{2,14})(?![^\W\d_]))")
_DIGITS_FOR_LETTERS = str.maketrans("013457", "oieast")


def unmask(text: str) -> str:
    """Return `text` with one form for each letter, and each word written as it is in the lists.

    Figures are left alone.
    """
    normal = unicodedata.normalize("NFKC", text).replace("’", "'").replace(say.AMOUNT, " ")
    plain = _MARKUP_INSIDE.sub("", _without_hidden(normal))
    plain = _SPACED.sub(lambda match: re.sub(r"[\W_]", "", match[0]), plain)
    plain = _DISGUISED.sub(_known(lambda word: word.translate(_DIGITS_FOR_LETTERS)), plain)
    plain = _HYPHENED.sub(_known(lambda word: word.replace("-", "")), plain)
    plain = _PAIR.sub(lambda match: match[1] if _is_torn(match) else match[0], plain)
    return _WORD.sub(_known(lambda word: word), plain)


def _without_hidden(text: str) -> str:
    if text.isascii():
        return text
    return "".join(letter for letter in text if unicodedata.category(letter) != "Cf")


def _known(read: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    """Return a replacement by the listed word that `read` makes of a match, if there is one."""

    def replacement(match: re.Match[str]) -> str:
        word = read(match[0].lower())
        if word in _LISTED:
            return match[0] if word == match[0].lower() else word
        restored = _RESTORED.get(folded(word))
        # "hätten" is no "hatten", but "pàid" can only be "paid".
        if restored is None or not (word.isascii() or restored in _DISGUISABLE):
            return match[0]
        return restored.upper() if match[0].isupper() else restored

    return replacement


def _is_torn(match: re.Match[str]) -> bool:
    """Say whether two words are one: "re funded", "zurück gezahlt"."""
    first, second = match[1].lower(), match[2].lower()
    return first + second in _TEARABLE and second not in _TEARABLE


def is_disguised(word: str) -> bool:
    """Say whether a word that is in no list becomes a listed one without its marks: "pāid"."""
    return word not in _LISTED and _RESTORED.get(folded(word)) in _DISGUISABLE


def folded(word: str) -> str:
    """Return `word` as people write it without marks: "zurueckgezahlt", "rembourse"."""
    plain = word if word.isascii() else _without_marks(word)
    return plain.replace("ae", "a").replace("oe", "o").replace("ue", "u")


def _without_marks(word: str) -> str:
    bare = unicodedata.normalize("NFD", word.replace("ß", "ss"))
    return "".join(letter for letter in bare if not unicodedata.combining(letter))


def _restored(words: Iterable[str]) -> dict[str, str]:
    """Return the listed word for each form without marks that is not itself a word of some list.

    "Je confirme" is no "confirmé": of such participles only those of refunds are worth the doubt.
    """
    forms = {
        folded(word): word
        for word in sorted(words)
        if len(word) >= 4 and (word in say.PAID or not _PARTICIPLE.search(word))
    }
    return {form: word for form, word in forms.items() if form not in _LISTED or form == word}


_PARTICIPLE = re.compile(r"é(?:e|s|es)?$")
_LISTED = say.ALL
_RESTORED = _restored(_LISTED)
_DISGUISABLE = say.PAID | say.DONE | say.MOVED | say.APPROVED | say.REFUND
_TEARABLE = frozenset(word for word in say.PAID | say.REFUND if len(word) >= 6)
