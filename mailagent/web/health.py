"""For the platform: is the process alive, and can it do its work?"""

from __future__ import annotations

import logging

import sqlalchemy as sa
from flask import Blueprint, Response

from mailagent import services
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.web.guard import open_to_all

logger = logging.getLogger(__name__)

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@open_to_all
def alive() -> Response:
    """Answer while the process serves at all; a database that is down is not cured by a restart."""
    return Response("alive\n", mimetype="text/plain")


@blueprint.get("/readyz")
@open_to_all
def ready() -> Response:
    """Answer 200 when the database is reached and migrated, else 503 with the reason."""
    try:
        check_schema(services.current().database)
    except SchemaProblem as problem:
        return Response(f"{problem}\n", 503, mimetype="text/plain")
    except sa.exc.SQLAlchemyError:
        logger.exception("not ready")
        return Response("the database cannot be reached\n", 503, mimetype="text/plain")
    return Response("ready\n", mimetype="text/plain")
