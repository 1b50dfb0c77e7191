"""Every table of the app, with the constraints that hold even when code is wrong.

Triggers live in `migrations`: they keep `orders.held_minor` (refunds paid and under way) and make the
audit table append-only. So does the index of words in mail, which only PostgreSQL has. DBOS keeps
its own tables in the schema `dbos`.
"""

# ruff: noqa: F403 - this module names every table, whichever module describes it
from mailagent.store.schema.columns import *
from mailagent.store.schema.mail import *
from mailagent.store.schema.operations import *
from mailagent.store.schema.orders import *
from mailagent.store.schema.refunds import *
