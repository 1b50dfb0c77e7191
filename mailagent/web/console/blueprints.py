"""The blueprints of the console, in the order of its menu. In `__init__`, each page would load all."""

from __future__ import annotations

from flask import Blueprint

from mailagent.web.console import (
    agent,
    audit,
    customers,
    drafts,
    inbox,
    login,
    refunds,
    replays,
    runs,
    search,
    tasks,
)
from mailagent.web.console.conversations import (
    acts,
    lists,
    organise,
    pages,
    refunding,
    saved_replies,
)

_PAGES = (
    *(login, inbox, lists, pages, acts, organise, saved_replies, refunding),
    *(search, refunds, customers, drafts, tasks, agent, runs, replays, audit),
)
BLUEPRINTS: tuple[Blueprint, ...] = tuple(each.blueprint for each in _PAGES)
