"""The model's last answer: it names phrases and facts, and code writes them. It may have words of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PARTS_MAX = 30
WORDS_MAX_LENGTH = 2_000
ALL_WORDS_MAX_LENGTH = 4_000
ID_MAX_LENGTH = 500
# PostgreSQL takes no NUL. Of the other control characters, only words have some, for lines.
_ID = r"\A[^\x00-\x1f\x7f]*\z"
_WORDS = r"\A[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*\z"

# Local servers wrap JSON into a code block.
_FENCE = re.compile(r"\A```(?:json)?(.*)```\Z", re.DOTALL)


class CompositionProblem(ValueError):
    """The answer is no composition; the text tells the model what to write instead."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Words(_Part):
    """Free text. It is sent only after two checks."""

    words: str = Field(min_length=1, max_length=WORDS_MAX_LENGTH, pattern=_WORDS)


class PhraseName(_Part):
    """A sentence of the shop, by its id in `templates/mail/_phrases.txt`."""

    phrase: str = Field(min_length=1, max_length=ID_MAX_LENGTH, pattern=_ID)


class FactName(_Part):
    """A fact by the id under which a tool showed it."""

    fact: str = Field(min_length=1, max_length=ID_MAX_LENGTH, pattern=_ID)


class Composition(_Part):
    """A reply. `language` is an ISO 639 code, such as `de`."""

    language: str = Field(pattern=r"\A[a-z]{2,3}(?:-[A-Za-z0-9]{2,4})?\z")
    parts: list[Words | PhraseName | FactName] = Field(max_length=PARTS_MAX)

    @property
    def words(self) -> list[str]:
        return [part.words for part in self.parts if isinstance(part, Words)]

    def keep_words(self, allowed: Collection[str]) -> Composition:
        """Return this without the words that are not allowed."""
        kept = [each for each in self.parts if not isinstance(each, Words) or each.words in allowed]
        return self.model_copy(update={"parts": kept})


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}


def answer_format(phrase_ids: Iterable[str], with_words: bool = False) -> dict[str, Any]:
    """Return the schema of an answer, in the strict mode of the Responses API. That knows no lengths: `parse`
    checks them."""
    parts = [_object(phrase=_TEXT | {"enum": list(phrase_ids)}), _object(fact=_TEXT)]
    if with_words:
        parts.append(_object(words=_TEXT))
    return {
        "format": {
            "type": "json_schema",
            "name": "reply",
            "strict": True,
            "schema": _object(
                language={"type": "string", "description": "ISO 639-1 code, such as en"},
                parts={"type": "array", "items": {"anyOf": parts}},
            ),
        }
    }


def parse(text: str) -> Composition:
    """Return the composition that the model's text is. Raises CompositionProblem."""
    fenced = _FENCE.match(text.strip())
    try:
        composition = Composition.model_validate(json.loads(fenced[1] if fenced else text))
    except (ValueError, RecursionError) as problem:
        place = ""
        if isinstance(problem, ValidationError):
            place = ".".join(str(part) for part in problem.errors()[0]["loc"])
        raise CompositionProblem(
            f"The answer does not fit the schema{f' at {place[:60]}' if place else ''}. Answer with one"
            ' JSON object: {"language": "en", "parts": [{"phrase": "an id"}, {"fact": "an id"}]}.'
        ) from None
    if sum(map(len, composition.words)) > ALL_WORDS_MAX_LENGTH:
        raise CompositionProblem(f"All words together may have {ALL_WORDS_MAX_LENGTH} characters.")
    return composition
