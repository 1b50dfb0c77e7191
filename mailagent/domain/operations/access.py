"""Who of the shop may do what in the console: roles come from the settings, at every request anew.

Pure. Deciding on refunds is nobody's right here: it belongs to whoever an approval was sent to.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mailagent.domain.shop import Shop


class Role(StrEnum):
    OPERATOR = "operator"
    MANAGER = "manager"
    TEAM = "team"


class Permission(StrEnum):
    """What a page or an act of the console needs."""

    VIEW = "view"  # the inbox, the search, conversations, refunds, customers
    ANSWER = "answer"  # drafts, taking over, writing to customers, dismissing
    RUNS = "runs"  # what the workflow engine recorded, replaying and stopping it
    ERASE = "erase"  # forgetting a customer
    AUDIT = "audit"  # who did what, and its export


PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.OPERATOR: frozenset(Permission),
    Role.MANAGER: frozenset({Permission.VIEW}),
    Role.TEAM: frozenset({Permission.VIEW, Permission.ANSWER}),
}


def roles_of(email: str, shop: Shop) -> frozenset[Role]:
    """Return the roles of an address, as the settings name it; none for a stranger.

    Capitals do not matter; a tag behind a plus does: it is another address to whoever reads mail.
    """
    named = {
        Role.OPERATOR: shop.ops_emails,
        Role.MANAGER: shop.manager_emails,
        Role.TEAM: shop.team_emails,
    }
    return frozenset(
        role
        for role, emails in named.items()
        if any(email.casefold() == each.casefold() for each in emails)
    )


def permissions_of(email: str, shop: Shop) -> frozenset[Permission]:
    """Return what an address may do in the console."""
    return frozenset().union(*(PERMISSIONS[role] for role in roles_of(email, shop)))
