"""The blueprints of the console, in the order of its menu."""

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

BLUEPRINTS: tuple[Blueprint, ...] = (
    login.blueprint,
    inbox.blueprint,
    lists.blueprint,
    pages.blueprint,
    acts.blueprint,
    organise.blueprint,
    saved_replies.blueprint,
    refunding.blueprint,
    search.blueprint,
    refunds.blueprint,
    customers.blueprint,
    drafts.blueprint,
    tasks.blueprint,
    agent.blueprint,
    runs.blueprint,
    replays.blueprint,
    audit.blueprint,
)
