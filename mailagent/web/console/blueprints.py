"""The blueprints of the console, in the order of its menu."""

from __future__ import annotations

from flask import Blueprint

from mailagent.web.console import (
    audit,
    conversations,
    customers,
    drafts,
    inbox,
    knowledge,
    login,
    model,
    refunds,
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
    knowledge.blueprint,
    runs.blueprint,
    model.blueprint,
    audit.blueprint,
)
