"""The rooms of the console, in the order of its menu."""

from __future__ import annotations

from flask import Blueprint

from mailagent.web.console import (
    acts,
    audit,
    conversations,
    customers,
    decide,
    drafts,
    inbox,
    live,
    login,
    model,
    put_away,
    refunds,
    replay,
    runs,
    search,
    second_factor,
)

BLUEPRINTS: tuple[Blueprint, ...] = (
    login.blueprint,
    second_factor.blueprint,
    inbox.blueprint,
    live.blueprint,
    put_away.blueprint,
    search.blueprint,
    conversations.blueprint,
    refunds.blueprint,
    customers.blueprint,
    drafts.blueprint,
    acts.blueprint,
    runs.blueprint,
    replay.blueprint,
    model.blueprint,
    decide.blueprint,
    audit.blueprint,
)
