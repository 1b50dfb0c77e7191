"""All tables of the app, with constraints that hold even if code is wrong.

`migrations` has the triggers, which keep `orders.held_minor` (refunds paid and under way) and make the audit
log append-only, and the index of words in mail, which only PostgreSQL has. DBOS keeps its own tables in the
schema `dbos`.
"""

# ruff: noqa: F403 - this module names the tables of all modules
from mailagent.store.schema.columns import *
from mailagent.store.schema.mail import *
from mailagent.store.schema.operations import *
from mailagent.store.schema.orders import *
from mailagent.store.schema.refunds import *
