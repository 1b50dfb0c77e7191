"""What a process of tests computes once: each test has an app and engines of its own, which would compile the
same pages, statements and routes again. That is a third of the time of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from jinja2 import FileSystemBytecodeCache
from werkzeug.routing import Rule

from mailagent.web.middleware import App

Builder = Callable[..., tuple[str, str]]


class _Statements(dict[Any, Any]):
    """Compiled statements of all engines: those of one dialect compile alike."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_key_of(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_key_of(key), compiled)


def _key_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return (dialect.name, dialect.driver, *statement)


def share(patch: pytest.MonkeyPatch, folder: str) -> None:
    """Let all apps and engines of this process use the same compiled pages, statements and routes."""
    patch.setattr(App, "jinja_options", {"bytecode_cache": FileSystemBytecodeCache(folder)})
    _share_statements(patch)
    _share_routes(patch)


def _share_statements(patch: pytest.MonkeyPatch) -> None:
    statements = _Statements()
    shared = property(lambda engine: statements, lambda engine, own: None)
    patch.setattr(sa.Engine, "_compiled_cache", shared, raising=False)


def _share_routes(patch: pytest.MonkeyPatch) -> None:
    built: dict[object, Builder] = {}
    build = Rule._compile_builder

    def build_once(rule: Rule, append_unknown: bool = True) -> Builder:
        if rule.defaults:
            return build(rule, append_unknown)
        key = (tuple(rule._trace), append_unknown)
        if key not in built:
            built[key] = build(rule, append_unknown)
        return built[key]

    patch.setattr(Rule, "_compile_builder", build_once)
