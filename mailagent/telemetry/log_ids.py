"""The ids in log lines. Each request and each step sets the ids of what it works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

# The prefixes of our ids, and their names in log lines.
_PREFIXES = {"conversation_": "conversation_id", "refund_": "refund_id"}

_process: dict[str, str] = {}
_ids: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default=MappingProxyType({}))


def describe_process(**ids: str) -> None:
    """Add ids to all log lines of this process."""
    _process.update(ids)


@contextmanager
def about(*subjects: Any, run_id: str | None = None) -> Iterator[None]:
    """Add ids to the log lines within the block: the run, and the ids in `subjects`."""
    token = _ids.set(
        {**_ids.get(), **find_ids(*subjects), **({"run_id": run_id} if run_id else {})}
    )
    try:
        yield
    finally:
        _ids.reset(token)


def begin(*subjects: Any, trace_id: str | None = None) -> None:
    """Replace the ids for the log lines from now on, such as at the start of a request."""
    _ids.set({**find_ids(*subjects), **({"trace_id": trace_id} if trace_id else {})})


def note(*subjects: Any) -> None:
    """Add ids to a request's log lines. The ids of a run do not change: it may work on many rows."""
    if "run_id" not in _ids.get():
        _ids.set({**_ids.get(), **find_ids(*subjects)})


def known() -> dict[str, str]:
    """Return the current ids, and those of the process."""
    return {**_process, **_ids.get()}


def find_ids(*subjects: Any) -> dict[str, str]:
    """Return the ids among the arguments of a step or a view: an argument may be an id, or data with ids."""
    found: dict[str, str] = {}
    for subject in subjects:
        if isinstance(subject, str):
            for prefix, name in _PREFIXES.items():
                if subject.startswith(prefix):
                    found[name] = subject
        elif isinstance(subject, Mapping):
            for name in (*_PREFIXES.values(), "run_id"):
                if isinstance(subject.get(name), str):
                    found[name] = subject[name]
    return found
