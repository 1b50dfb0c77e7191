"""Who of the shop's people may do what in the console. Roles come from the settings. Pure.

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

    VIEW = "view"  # the inbox, the search, conversations, refunds, customers
    ANSWER = "answer"  # drafts, taking over, writing to customers, dismissing
    SETTLE = "settle"  # telling which refunds of the ledger were paid
    TASKS = "tasks"  # telling which tasks were done
    RUNS = "runs"  # what the workflow engine recorded, replaying and cancelling it
    ERASE = "erase"  # erasing a customer
    REPORT = "report"  # how the shop's support does
    AUDIT = "audit"  # who did what, and its export


PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.OPERATOR: frozenset(Permission),
    Role.MANAGER: frozenset(
        {Permission.VIEW, Permission.SETTLE, Permission.TASKS, Permission.REPORT}
    ),
    Role.OWNER: frozenset({Permission.VIEW, Permission.REPORT}),
    Role.TEAM: frozenset({Permission.VIEW, Permission.ANSWER, Permission.TASKS}),
}


def roles_of(email: str, shop: Shop) -> frozenset[Role]:
    """Return the roles of an address. Letter case does not matter; a tag behind a plus does, because it may
    be another mailbox."""
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
    """Return what an address may do in the console."""
    return frozenset().union(*(PERMISSIONS[role] for role in roles_of(email, shop)))
