"""The workflow client, in `client`: enqueue, wake, read and replay runs. Here: the names of workflows, queues,
statuses and runs.

Messages only wake a workflow; it then reads its state from the database. The row and its wake-up are written
in one transaction. Nothing in this package runs a workflow.
"""

from __future__ import annotations

CONVERSATION, REFUND, DELIVERY, SWEEP = "conversation", "refund", "delivery", "sweep"
HOUSEKEEPING, PREVIEWS, SHADOW = "housekeeping", "previews", "shadow"
LOOK_UP = "look_up"

# Workflows that a schedule, page, sweep or webhook starts, and not a row: nothing depends on a single run.
SCHEDULED = (SWEEP, HOUSEKEEPING, PREVIEWS, SHADOW, LOOK_UP)

CONVERSATIONS = "conversations"  # partitioned: one run per customer at a time
REFUNDS = "refunds"
DELIVERIES = "deliveries"

QUEUE_OF = {CONVERSATION: CONVERSATIONS, REFUND: REFUNDS, DELIVERY: DELIVERIES}

# DBOS's own queue, for runs that were enqueued without naming one. The schedule uses it, too.
INTERNAL_QUEUE = "_dbos_internal_queue"
OTHER_QUEUE = "other"  # how the metrics name every queue that is not in QUEUE_OF

# The ends of the ids of a delivery's runs that follow a bounce: as an event, and as a mail.
UNDELIVERED, RETURNED = "undelivered", "returned"

WAKE_TOPIC = "look"  # the topic of every wake-up message

STATUSES = (
    "ENQUEUED", "PENDING", "DELAYED", "SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED",
)  # fmt: skip
ACTIVE = frozenset({"ENQUEUED", "PENDING", "DELAYED"})
PUT_OFF = "put off"  # the output of a run whose mail waits for a provider: another run answers it
GIVEN_UP = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
FAILED = frozenset({"ERROR", GIVEN_UP})

# Set by hand, like a schema version: recovery and queues hand a run only to workers of its version.
# Raise it only with a change that old runs cannot replay, and say so in CHANGELOG.md.
APPLICATION_NAME = "mailagent"
APPLICATION_VERSION = "1"


def run_id_of(workflow: str, row_id: str, again: int | str = 0) -> str:
    """Return the id of the run that is enqueued for a row. `again` distinguishes later ones."""
    name = f"{workflow}-{row_id.partition('_')[2]}"
    return f"{name}-{again}" if again else name


def mail_of(run_id: str) -> str:
    """Return the id of the mail that a conversation's run was enqueued for; of a fork, its origin's. The id is
    no mail's if the DBOS console named the fork."""
    return f"mail_{run_id.removeprefix(f'{CONVERSATION}-').partition('-')[0]}"
