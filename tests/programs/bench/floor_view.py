"""The floor of receiving: a bare Flask view that inserts the same bytes in one transaction."""

from __future__ import annotations

import os

import sqlalchemy as sa
from flask import Flask, request

_rows = sa.Table(
    "bench_requests",
    sa.MetaData(),
    sa.Column("request_id", sa.BigInteger, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)


def make() -> Flask:
    """Return the app, its table made."""
    app = Flask("floor")
    engine = sa.create_engine(os.environ["DATABASE_URL"], pool_size=10, max_overflow=20)
    _rows.metadata.create_all(engine)

    @app.post("/webhooks/sendgrid/inbound")
    def receive() -> str:
        with engine.begin() as connection:
            connection.execute(_rows.insert().values(body=request.get_data(cache=False)))
        return "stored\n"

    @app.get("/readyz")
    def ready() -> str:
        return "ready\n"

    return app
