"""What each of the shop's people may do in the console. Roles come from the settings. Pure.

No role may decide on refunds: only the person to whom an approval was sent may.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mailagent.domain.shop import Shop


class Role(StrEnum):
    OPERATOR = "operator"
    MANAGER = "manager"
    TEAM = "team"
    OWNER = "owner"


class Permission(StrEnum):
    """What a page or an action of the console requires."""

    VIEW = "view"  # see the inbox, the search, conversations, refunds, customers
    ANSWER = "answer"  # decide on drafts, take over, write to customers, dismiss
    SETTLE = "settle"  # say which entries of the ledger were paid
    TASKS = "tasks"  # say which tasks were done
    RUNS = "runs"  # see the steps of runs, replay and cancel them
    ERASE = "erase"  # erase a customer
    REPORT = "report"  # see the report for owners
    AUDIT = "audit"  # see and export the audit log


PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.OPERATOR: frozenset(Permission),
    Role.MANAGER: frozenset(
        {Permission.VIEW, Permission.SETTLE, Permission.TASKS, Permission.REPORT}
    ),
    Role.OWNER: frozenset({Permission.VIEW, Permission.REPORT}),
    Role.TEAM: frozenset({Permission.VIEW, Permission.ANSWER, Permission.TASKS}),
}


def roles_of(email: str, shop: Shop) -> frozenset[Role]:
    """Return the roles of a mail address. Letter case does not matter. A tag behind a plus does matter, because
    the address may belong to another mailbox."""
    named = {
        Role.OPERATOR: shop.ops_emails,
        Role.MANAGER: shop.manager_emails,
        Role.TEAM: shop.team_emails,
        Role.OWNER: shop.report_emails,
    }
    return frozenset(
        role
        for role, emails in named.items()
        if any(email.casefold() == each.casefold() for each in emails)
    )


def permissions_of(email: str, shop: Shop) -> frozenset[Permission]:
    """Return the permissions of all roles of a mail address; empty for a stranger."""
    return frozenset().union(*(PERMISSIONS[role] for role in roles_of(email, shop)))
