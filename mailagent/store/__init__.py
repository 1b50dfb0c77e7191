"""The database: its tables, and all SQL of the app. Functions take the caller's connection, so that a row and
the run that is enqueued for it commit together."""
