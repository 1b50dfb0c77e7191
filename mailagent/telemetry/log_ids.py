"""Which ids the lines of the log carry: whoever begins something says once what it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

# By what ours begin with.
_PREFIXES = {"conversation_": "conversation_id", "refund_": "refund_id"}

_NOTHING: Mapping[str, str] = MappingProxyType({})

_process: dict[str, str] = {}
_ids: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default=_NOTHING)


def describe_process(**ids: str) -> None:
    """Say what all lines of this process carry."""
    _process.update(ids)


@contextmanager
def about(*subjects: Any, run_id: str | None = None) -> Iterator[None]:
    """Say what is worked on within the block: a run, and the ids that stand in `subjects`."""
    token = _ids.set(
        {**_ids.get(), **find_ids(*subjects), **({"run_id": run_id} if run_id else {})}
    )
    try:
        yield
    finally:
        _ids.reset(token)


def begin(*subjects: Any, trace_id: str | None = None) -> None:
    """Say what is worked on from now on, such as by a request; what was said before is forgotten."""
    _ids.set({**find_ids(*subjects), **({"trace_id": trace_id} if trace_id else {})})


def note(*subjects: Any) -> None:
    """Add ids that were found on the way. A run keeps its own: one that sees to many rows is about none."""
    if "run_id" not in _ids.get():
        _ids.set({**_ids.get(), **find_ids(*subjects)})


def known() -> dict[str, str]:
    """Return the ids of what is worked on here and now, and those of the process."""
    return {**_process, **_ids.get()}


def find_ids(*subjects: Any) -> dict[str, str]:
    """Return the ids in what steps and views are given: an id itself, or data that names one. Nothing else
    of it, for it may hold anybody's words."""
    found: dict[str, str] = {}
    for subject in subjects:
        if isinstance(subject, str):
            found |= {
                name: subject for prefix, name in _PREFIXES.items() if subject.startswith(prefix)
            }
        elif isinstance(subject, Mapping):
            named = {name: subject.get(name) for name in (*_PREFIXES.values(), "run_id")}
            found |= {name: each for name, each in named.items() if isinstance(each, str)}
    return found
