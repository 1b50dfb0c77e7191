"""What the fork server does once for all the apps that it starts: their certificates and the list of public
suffixes are loaded, and a template that one of them has compiled is read by the next. That is a third of the
work of an app that lives for seconds."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import httpcore2
from jinja2 import BaseLoader, Environment, FileSystemBytecodeCache, Template

from mailagent.adapters.mime.dmarc import registered_domain

_FOLDER = TemporaryDirectory(prefix="mailagent-templates-")  # goes with the fork server
_COMPILED = FileSystemBytecodeCache(_FOLDER.name)
_load = BaseLoader.load


def _load_compiled(
    loader: BaseLoader,
    environment: Environment,
    name: str,
    globals: MutableMapping[str, Any] | None = None,
) -> Template:
    environment.bytecode_cache = _COMPILED
    return _load(loader, environment, name, globals)


BaseLoader.load = _load_compiled  # type: ignore[method-assign, assignment]
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
for trusts_environment in (True, False):
    httpcore2.default_ssl_context(_trust_env=trusts_environment)
registered_domain("shop.example")
