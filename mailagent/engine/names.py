"""What workflows, queues, states and runs are called."""

from __future__ import annotations

CONVERSATION, REFUND, DELIVERY, SWEEP = "conversation", "refund", "delivery", "sweep"
HOUSEKEEPING, PREVIEWS = "housekeeping", "previews"

# What a clock begins, not a row.
SCHEDULED = (SWEEP, HOUSEKEEPING, PREVIEWS)

CONVERSATIONS = "conversations"  # partitioned: one run per customer at a time
REFUNDS = "refunds"
DELIVERIES = "deliveries"

QUEUE_OF = {CONVERSATION: CONVERSATIONS, REFUND: REFUNDS, DELIVERY: DELIVERIES}

# DBOS's own, where a run waits that was put into no other. The schedule uses it, too.
INTERNAL_QUEUE = "_dbos_internal_queue"

WAKE_TOPIC = "look"  # the topic of every wake-up

STATUSES = (
    "ENQUEUED", "PENDING", "DELAYED", "SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED",
)  # fmt: skip
ACTIVE = frozenset({"ENQUEUED", "PENDING", "DELAYED"})
FAILED = frozenset({"ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})

# Set by hand, like a schema version: recovery and queues hand a run only to workers of its version.
# Raise it only with a change that old runs cannot replay, and say so in CHANGELOG.md.
APPLICATION_NAME = "mailagent"
APPLICATION_VERSION = "1"


def run_id_of(workflow: str, row_id: str, again: int | str = 0) -> str:
    """Return the id of the run that is queued for a row; `again` tells later ones apart."""
    name = f"{workflow}-{row_id.partition('_')[2]}"
    return f"{name}-{again}" if again else name


def fork_id_of(run_id: str, number: int) -> str:
    """Return the id of a run's first, second, … fork. Two forks asked for at once get the same: one of
    them is refused."""
    return f"{run_id}-fork-{number}"
