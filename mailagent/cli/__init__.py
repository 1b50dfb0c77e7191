"""The `flask …` commands: read arguments, call the store or the workflow client, print."""

from __future__ import annotations

from flask import Flask

from mailagent.cli import (
    check,
    conversations,
    erase,
    goodwill,
    knowledge,
    mails,
    ops,
    orders,
    policy,
    purge,
    refunds,
    runs,
    worker,
)


def register(app: Flask) -> None:
    """Add the commands to the app."""
    for command in (
        check.check,
        conversations.conversations,
        erase.erase,
        goodwill.goodwill,
        knowledge.knowledge,
        mails.mails,
        ops.ops,
        orders.orders,
        policy.policy,
        purge.purge,
        refunds.refunds,
        runs.runs,
        worker.worker,
    ):
        app.cli.add_command(command)
