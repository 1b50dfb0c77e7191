"""A database that is restored to a minute before the crash: what the gateway, the mailboxes and the customers
remember, and it does not. `python -m tests.programs.restore` plays it on SQLite and on PostgreSQL."""
