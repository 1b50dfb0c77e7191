"""Describes pydantic's validation errors for people: where, what is wrong, and what to write."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

LONGEST_SHOWN = 80


class Record(BaseModel):
    """A strict model: it refuses unknown keys and converts no types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def describe_problems(error: ValidationError, model: type[Record], top: str) -> list[str]:
    """Return a sentence for every problem, with the path of its key. List elements count from 1.

    `top` names the whole document, for problems without a key.
    """
    return [_sentence(found, model, top) for found in error.errors(include_url=False)]


def _sentence(found: ErrorDetails, model: type[Record], top: str) -> str:
    path = found["loc"]
    match found["type"]:
        case "missing":
            return f"{_name(path[:-1], top)}: {path[-1]!r} is missing; add it"
        case "extra_forbidden":
            known = ", ".join(sorted(_model_at(model, path[:-1]).model_fields))
            return f"{_name(path[:-1], top)}: unknown key {path[-1]!r}; known are {known}"
    return f"{_name(path, top)}: {_words(found)}"


def _model_at(model: type[Record], path: tuple[int | str, ...]) -> type[Record]:
    for key in path:
        if isinstance(key, str):
            annotation = model.model_fields[key].annotation
            found = (
                annotation,
                *get_args(annotation),
            )  # also finds the record in `Table | None` and `list[Table]`
            model = next(
                each for each in found if isinstance(each, type) and issubclass(each, Record)
            )
    return model


def _words(found: ErrorDetails) -> str:
    shown = show(found["input"])
    match found["type"]:
        case "value_error":
            return str(found.get("ctx", {})["error"])
        case "model_type" | "dict_type":
            return f"is not an object with keys: {shown}"
        case "bool_type":
            return f"{shown} is neither true nor false"
    return f"{shown} is refused; {found['msg'].replace('Input', 'it', 1)}"


def show(value: object) -> str:
    """Return a value as an error quotes it."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):
        return "what stands there"  # thousands of digits, or deeply nested brackets
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}…"


def _name(path: tuple[int | str, ...], top: str) -> str:
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            key = part if part.isprintable() else repr(part)
            name += f".{key}" if name else key
    return name or top
