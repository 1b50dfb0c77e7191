"""Steps of the housekeeping: delete what is old enough, in small transactions. Beside them previews of photos.

An interrupted step leaves whole batches done, and the next one continues. Several workers at once delete
different rows. `docs/retention.md` says what is deleted when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.adapters.mime.photo_preview import Preview, make_preview
from mailagent.domain.mail.message import PREVIEWS_OF_MAIL_MAX, is_photo
from mailagent.engine.run import OldRun
from mailagent.proposals import offers as proposals
from mailagent.store.mail import inbound, raw_mail
from mailagent.store.privacy import retention
from mailagent.store.refunds import offers
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.recording import at_work, step

# On SQLite a delete holds up every other writer.
RUNS_AT_ONCE = 100
ROWS_AT_ONCE = 500
CONVERSATIONS_AT_ONCE = 50
PAUSE_SECONDS = 0.02
# For each of the three steps, so that they end before the next hour's begin. The next hour continues. A worker
# that shuts down waits for a batch, not for a step.
STEP_SECONDS = 900.0
# Less than the minute until the next run, which continues.
PREVIEW_SECONDS = 40.0
MAILS_AT_ONCE = 100
# An hourly run looks this far back; `flask purge` looks at everything.
LOOKS_BACK = timedelta(days=60)
# DBOS has no index for scheduled runs: a query for old ones reads all runs since the time at which it
# begins. So look only this far back; once a day look at everything, in case no worker ran for a while.
LOOKS_BACK_FOR_SCHEDULED = timedelta(hours=6)
LOOKS_AT_ALL_IN_HOUR = 3  # UTC


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a long task has to end: `seconds` after it began; never if None. In a run, it has also passed when
    the worker shuts down."""

    seconds: float | None
    began: float = field(default_factory=time.monotonic)

    def has_passed(self) -> bool:
        if DBOS.workflow_id is not None and at_work.is_leaving:
            return True
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds


@step
def purge_histories() -> int:
    """Delete histories of runs that ended long ago; return how many."""
    looks_at_all = services.current().now().hour == LOOKS_AT_ALL_IN_HOUR
    return delete_histories(
        Deadline(STEP_SECONDS), None if looks_at_all else LOOKS_BACK_FOR_SCHEDULED
    )


@step
def purge_content() -> int:
    """Remove the content of old conversations, if the shop wants that. Returns how many conversations, and
    mails outside of conversations, in one number."""
    return take_out_text(Deadline(STEP_SECONDS), LOOKS_BACK)


@step
def purge_short_lived() -> int:
    """Delete rows that were needed for a while only, and close offers past their date; return how many."""
    return expire_offers() + delete_short_lived(Deadline(STEP_SECONDS))


# --- histories ------------------------------------------------------------------------------------


def delete_histories(deadline: Deadline, back: timedelta | None = None) -> int:
    """Delete the histories that are old enough, and the texts of their steps, until the deadline; return
    how many histories. `back`: how far back to look for scheduled runs, None for everything."""
    live = services.current()
    now, kept = live.now(), live.retention
    scheduled, ended = kept.scheduled_runs_before(now), kept.runs_before(now)
    since = None
    if back is not None:
        since = OldRun("", "", "", round((scheduled - back).timestamp() * 1000))
    deleted = _delete_all(True, scheduled, deadline, since) + _delete_all(False, ended, deadline)
    repeat(lambda connection: retention.purge_step_texts(connection, ended, ROWS_AT_ONCE), deadline)
    return deleted


def _delete_all(
    scheduled: bool, before: datetime, deadline: Deadline, since: OldRun | None = None
) -> int:
    live, deleted = services.current(), 0
    for run_ids in _list_old(scheduled, before, since):
        if deadline.has_passed():
            break
        with live.database.transaction() as connection:
            gone = live.workflow_client.tables.delete_old(connection, run_ids, before)
            retention.forget_dismissals(connection, gone)
        deleted += len(gone)
        time.sleep(PAUSE_SECONDS)
    return deleted


def _list_old(
    scheduled: bool, before: datetime, since: OldRun | None = None
) -> Iterator[list[str]]:
    """Yield, page by page, the runs that are old enough and whose row is settled, too."""
    live, last = services.current(), since
    while True:
        with live.database.snapshot() as connection:
            page = live.workflow_client.tables.list_old(
                connection, before, RUNS_AT_ONCE, last, scheduled=scheduled
            )
            still_open = retention.find_open(connection, {run.subject for run in page})
        yield [run.run_id for run in page if run.subject not in still_open]
        if len(page) < RUNS_AT_ONCE:
            return
        last = page[-1]


def count_histories() -> int:
    """Return how many histories are old enough to be deleted."""
    now, kept = services.current().now(), services.current().retention
    scheduled = _list_old(True, kept.scheduled_runs_before(now))
    ended = _list_old(False, kept.runs_before(now))
    return sum(len(run_ids) for run_ids in (*scheduled, *ended))


# --- content, and rows that are needed for a while --------------------------------------------------


def take_out_text(deadline: Deadline, back: timedelta | None = None) -> int:
    """Remove content that is old enough, until the deadline. `back`: how far back to look, None for
    everything. Returns how many conversations, and mails outside of conversations, in one number."""
    live = services.current()
    now = live.now()
    before = live.retention.text_before(now)
    if before is None:
        return 0
    since = None if back is None else before - back
    # Refunds may have kept older versions until now.
    looks_at_all = now.hour == LOOKS_AT_ALL_IN_HOUR
    newer_since = None if looks_at_all else since

    def threads(connection: sa.Connection) -> int:
        return retention.purge_conversations(connection, before, since, now, CONVERSATIONS_AT_ONCE)

    def loose(connection: sa.Connection) -> int:
        return retention.purge_loose(connection, before, since, ROWS_AT_ONCE)

    def versions(connection: sa.Connection) -> int:
        nonlocal newer_since  # each batch begins where the last one ended
        found, newer_since = retention.purge_order_versions(
            connection, before, newer_since, ROWS_AT_ONCE
        )
        return found

    gone = repeat(threads, deadline) + repeat(loose, deadline)
    repeat(versions, deadline)
    return gone


def delete_short_lived(deadline: Deadline) -> int:
    """Delete rows that were needed for a while only, until the deadline; return how many."""
    return sum(delete_of_rule(rule, deadline) for rule in retention.RULES)


def delete_of_rule(rule: retention.Rule, deadline: Deadline) -> int:
    """Delete the rows of one rule until the deadline; return how many."""
    now = services.current().now()
    return repeat(lambda connection: retention.purge(connection, rule, now, ROWS_AT_ONCE), deadline)


def repeat(purge: Callable[[sa.Connection], int], deadline: Deadline) -> int:
    """Delete in one transaction after another until nothing is left, or until the deadline; return how many."""
    live, gone = services.current(), 0
    while not deadline.has_passed():
        with live.database.transaction() as connection:
            batch = purge(connection)
        if not batch:
            break
        gone += batch
        time.sleep(PAUSE_SECONDS)
    return gone


# --- offers ---------------------------------------------------------------------------------------


def expire_offers() -> int:
    """Close the offers whose date has passed, the oldest first; return how many. Until then the date alone
    stops an acceptance."""
    live = services.current()
    with live.database.snapshot() as connection:
        overdue = offers.list_overdue(connection, live.now(), ROWS_AT_ONCE)
    return process_each(overdue, str, _expire_offer)


def _expire_offer(offer_id: str) -> int:
    with services.current().database.transaction() as connection:
        offer = offers.lock(connection, offer_id)
        return int(offer is not None and proposals.expire(connection, offer))


# --- previews of photos ---------------------------------------------------------------------------

# Each is tried once. If one cannot be made, its row says why; the run does not fail.


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
