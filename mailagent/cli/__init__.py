"""The `flask …` commands: read arguments, call the store or the workflow client, print.

A command's module is imported when the command runs, so that `flask --help` and small commands are fast.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
from flask import Flask

# Each command with its module and the help that `flask --help` shows.
_COMMANDS = {
    "backtest": (
        "mailagent.cli.backtest",
        "Ask about the last answered mails again, and tell where the decision differs.",
    ),
    "check": (
        "mailagent.cli.installation.check",
        "Check settings, database, keys, workers and queues.",
    ),
    "conversations": ("mailagent.cli.conversations", "Conversations with customers."),
    "demo": ("mailagent.demo.show", "Show mailagent at work on this machine."),
    "erase": ("mailagent.cli.erase", "Erase a customer."),
    "goodwill": ("mailagent.cli.goodwill", "Discount codes that were given for goodwill."),
    "knowledge": ("mailagent.cli.knowledge", "What replies may quote (SHOP_KNOWLEDGE)."),
    "mails": ("mailagent.cli.mails", "Inbound mail."),
    "ops": ("mailagent.cli.ops", "Logins to the console."),
    "orders": ("mailagent.cli.orders", "The shop's orders."),
    "policy": ("mailagent.cli.policy", "What is refunded, and who decides."),
    "prompt": ("mailagent.cli.prompt", "What the model is told."),
    "purge": (
        "mailagent.cli.purge",
        "Delete everything that is past its retention period (RAW_MAIL_DAYS, RUN_DAYS, MAIL_DAYS).",
    ),
    "refunds": ("mailagent.cli.refunds", "Refunds: requested, decided, paid."),
    "runs": ("mailagent.cli.runs", "Workflow runs."),
    "setup": (
        "mailagent.cli.installation.setup",
        "Ask for every setting, check each, and write `.env`.",
    ),
    "tasks": ("mailagent.cli.tasks", "What customers want that people of the shop do."),
    "worker": ("mailagent.cli.worker", "Run workflows in this process."),
}


class _Lazy(click.Command):
    """A command that is imported when it runs. `prepare` is called before, with its name."""

    def __init__(self, name: str, prepare: Callable[[str], None] | None) -> None:
        super().__init__(name, help=_COMMANDS[name][1])
        self._prepare = prepare

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if self._prepare is not None:
            self._prepare(str(self.name))
        return load(str(self.name)).make_context(info_name, args, parent, **extra)


def load(name: str) -> click.Command:
    """Import a command."""
    command: click.Command = getattr(import_module(_COMMANDS[name][0]), name)
    return command


def load_all() -> dict[str, click.Command]:
    """Import all commands, by name."""
    return {name: load(name) for name in _COMMANDS}


def register(app: Flask, prepare: Callable[[str], None] | None = None) -> None:
    """Add the commands to the app. `prepare` is called with the name of a command before it is imported."""
    for name in _COMMANDS:
        app.cli.add_command(_Lazy(name, prepare))
