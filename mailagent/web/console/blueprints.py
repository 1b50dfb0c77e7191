"""The blueprints of the console, in the order of its menu."""

from __future__ import annotations

from flask import Blueprint

from mailagent.web.console import (
    agent,
    audit,
    conversations,
    customers,
    drafts,
    inbox,
    login,
    refunds,
    replays,
    runs,
    search,
)

BLUEPRINTS: tuple[Blueprint, ...] = (
    login.blueprint,
    inbox.blueprint,
    conversations.blueprint,
    search.blueprint,
    refunds.blueprint,
    customers.blueprint,
    drafts.blueprint,
    agent.blueprint,
    runs.blueprint,
    replays.blueprint,
    audit.blueprint,
)
