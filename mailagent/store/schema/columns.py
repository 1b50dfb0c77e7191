"""What all tables share: names of constraints, column types, and functions for checks and indexes."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    """Return a table with these columns, checks and indexes, in the app's metadata."""
    return sa.Table(name, metadata, *parts)


# None becomes NULL, not JSON's null.
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
RowNumber = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # a number that the database makes


def one_of(column: str, values: type[StrEnum]) -> sa.CheckConstraint:
    """Return the check that a column has one of an enum's values."""
    names = ", ".join(f"'{value.value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({names})", name=column)


def check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def partial_index(name: str, *columns: str, where: str, postgresql: str | None = None) -> sa.Index:
    """Return an index of the rows for which `where` holds. `postgresql`: the condition in PostgreSQL's SQL, if
    it differs."""
    theirs = sa.text(postgresql or where)
    return sa.Index(name, *columns, sqlite_where=sa.text(where), postgresql_where=theirs)
