"""Previews of photos, each tried once. If one cannot be made, its row says why; the run does not fail."""

from __future__ import annotations

from mailagent import services
from mailagent.adapters.mime.photo_preview import Preview, make_preview
from mailagent.domain.mail.message import PREVIEWS_OF_MAIL_MAX, is_photo
from mailagent.store.mail import inbound, raw_mail
from mailagent.workflows.steps.maintenance.housekeeping import Deadline
from mailagent.workflows.steps.recording import step

# Less than the minute until the next run, which continues.
PREVIEW_SECONDS = 40.0
MAILS_AT_ONCE = 100


@step
def make_previews() -> int:
    """Make a preview of each photo that was not tried yet: proven senders first, then the newest mails.
    Return how many photos were tried."""
    live, deadline, tried = services.current(), Deadline(PREVIEW_SECONDS), 0
    with live.database.snapshot() as connection:
        mail_ids = raw_mail.list_without_previews(connection, MAILS_AT_ONCE)
    for mail_id in mail_ids:
        tried += _try_photos_of(mail_id, deadline)
        if deadline.has_passed():
            break
        with live.database.transaction() as connection:
            raw_mail.mark_previews_made(connection, mail_id, live.now())
    return tried


def _try_photos_of(mail_id: str, deadline: Deadline) -> int:
    live, tried = services.current(), 0
    with live.database.snapshot() as connection:
        mail = inbound.find(connection, mail_id)
        raw = raw_mail.find(connection, mail_id)
    if mail is None or raw is None:
        return 0
    photos = [number for number, file in enumerate(mail.attachments) if is_photo(file)]
    for number in photos[:PREVIEWS_OF_MAIL_MAX]:
        if deadline.has_passed():
            break
        with live.database.transaction() as connection:
            # Committed before the try: a photo that crashes this process is not tried again.
            if not raw_mail.begin_preview(connection, mail_id, number, live.now()):
                continue
        file = live.mail_provider.find_attachment(raw.content_type, raw.body, number)
        preview = make_preview(file.data) if file else Preview(problem="the file is too large")
        with live.database.transaction() as connection:
            raw_mail.record_preview(
                connection, mail_id, number, preview.picture, preview.problem, live.now()
            )
        tried += 1
    return tried
