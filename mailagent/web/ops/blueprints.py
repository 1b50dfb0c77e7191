"""The rooms of the console, in the order of its menu."""

from __future__ import annotations

from flask import Blueprint

from mailagent.web.ops import inbox, login

BLUEPRINTS: tuple[Blueprint, ...] = (login.blueprint, inbox.blueprint)
