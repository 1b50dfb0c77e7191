"""The files that a person chose for an answer."""

from __future__ import annotations

import sqlalchemy as sa
from flask import request

from mailagent import services
from mailagent.adapters.mime.attachment import harmless_name, may_hold_key
from mailagent.domain.mail.outgoing_file import OutgoingFile, find_problem
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.store.console import sessions
from mailagent.web.form import FormProblem
from mailagent.web.language import _


def parse_files(connection: sa.Connection) -> tuple[OutgoingFile, ...]:
    """Return the files of the form, with safe names, ready to send. Raises FormProblem if they cannot be
    sent."""
    files = tuple(
        OutgoingFile(mask_card_numbers(harmless_name(chosen.filename or "")), chosen.read())
        for chosen in request.files.getlist("files")
        if chosen.filename
    )
    if problem := find_problem(files, _):
        raise FormProblem("files", problem)
    secrets = sessions.find_live(connection, services.current().now()) if files else None
    for file in files:
        if may_hold_key(file.content, secrets):
            raise FormProblem(
                "files",
                _(
                    "“%(name)s” holds a link by which its reader could decide or log in.",
                    name=file.name,
                ),
            )
    return files


def are_lost() -> bool:
    """Return whether the form had files. If it is shown again, the person must choose them again, because a
    page cannot fill a file field."""
    return any(chosen.filename for chosen in request.files.getlist("files"))
