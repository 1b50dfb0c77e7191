"""`flask check`: check what runs beside the settings. The settings themselves are checked at every start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import engine, services
from mailagent.adapters import env_file, gateways, mail_providers, order_sources
from mailagent.cli.installation import round_trip
from mailagent.cli.printing import Command, explain
from mailagent.domain.mail.webhook import USUAL_HOURS
from mailagent.domain.operations import metric
from mailagent.domain.operations.circuit_breaker import tell_breaker
from mailagent.domain.operations.incident import tell_incident
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.order import OrderProblem
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.shop import Shop
from mailagent.engine.client import WorkflowClient
from mailagent.settings import Settings, find_misspelt
from mailagent.store.clock import SKEW_WORTH_A_WORD, find_skew, tell_skew
from mailagent.store.mail import outbound, suppressions
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.store.operations import circuit_breakers, incidents, metric_figures, workers
from mailagent.store.refunds import policies

# After how many seconds something has waited too long, as in docs/deploy/prometheus/alerts.yaml.
LONGEST_WAITS = {
    "unanswered": (1800, "a customer's mail waits for an answer"),
    "outgoing": (3600, "a mail of ours waits to be sent"),
    "payments": (6 * 3600, "an approved refund waits to be paid"),
}
# A number that no shop gives.
NO_ORDER = "mailagent-checks-that-this-is-no-order"


@click.command("check", cls=Command)
@click.option(
    "--send-test-mail",
    is_flag=True,
    help="Also mail ourselves, wait for the mail and an event of it, and ask the model for a word.",
)
@click.option(
    "--wait",
    type=click.IntRange(1, 3600),
    default=120,
    show_default=True,
    help="How many seconds to wait for the test mail.",
)
@with_appcontext
def check(send_test_mail: bool, wait: int) -> None:
    """Check settings, database, keys, workers and queues. Print every problem; exit with 1 if there is any."""
    settings: Settings = current_app.config["MAILAGENT"]
    problems, notes = _database_problems(), list[str]()
    works = not send_test_mail or (not problems and round_trip.run(wait))
    if not problems:
        problems = _queue_problems(services.current().workflow_client)
    if not problems:
        problems = [*_version_problems(), *_wrong_clock()]
        with services.current().database.snapshot() as connection:
            problems += _standstill(connection, services.current().now())
            problems += [*_outages(connection), *_mail_problems(connection, settings.shop)]
            notes = _suppressed_customers(connection, settings.shop)
            notes += _renamed_policy(connection, settings.policy)
            notes += _open_breakers(connection)
        notes += _runs_of_other_versions()
    notes += [*_late_deadlines(settings), *_webhook_hours(settings), *_misspelt()]
    problems = [*_missing_keys(settings), *_order_source_problems(settings), *problems]
    for problem in problems:
        click.echo(f"problem: {problem}")
    for note in notes:
        click.echo(f"note: {note}")
    if problems or not works:
        raise SystemExit(1)
    click.echo(f"Everything is in place ({settings.env}, role {settings.role}).")


def _missing_keys(settings: Settings) -> list[str]:
    missing = []
    if settings.runs_workflows and not settings.openai_api_key:
        missing.append("OPENAI_API_KEY is not set: no mail can be answered")
    mail_provider = mail_providers.find(settings.mail_provider)
    if settings.runs_workflows and mail_provider.make_sender(settings) is None:
        missing.append(f"{mail_provider.key_setting} is not set: no mail can be sent")
    if settings.runs_web and not mail_provider.inbound_keys(settings):
        missing.append(f"{mail_provider.inbound_key_setting} is not set: anybody can post mail")
    if settings.runs_web and not mail_provider.events_keys(settings):
        missing.append(
            f"{mail_provider.events_key_setting} is not set: deliveries are not followed"
        )
    provider = gateways.find(settings.payment_gateway)
    if provider is None or provider.name == settings.order_source:
        return missing  # each look-up of an order shows what its platform did
    if settings.runs_web and provider.make_webhook(settings) is None:
        missing.append(
            f"{provider.secret_setting} is not set: refunds and disputes that are made at "
            f"{provider.title} are not followed"
        )
    return missing


def _order_source_problems(settings: Settings) -> list[str]:
    """Ask the order source for an order that it cannot have, and what our key may do."""
    source, provider = services.current().order_source, order_sources.find(settings.order_source)
    if source is None or provider is None or not settings.runs_workflows:
        return []
    try:
        source.load_order(NO_ORDER)
        return provider.find_missing_rights(settings)
    except (SourceProblem, OrderProblem) as problem:
        return [f"ORDER_SOURCE_URL: {problem}. `flask orders check-source` says more"]


def _misspelt() -> list[str]:
    """Report variables of the environment and of `.env` that no code reads, but that look like a setting."""
    names = set(os.environ)
    with suppress(PermissionError):  # another user's, which is not loaded
        names |= env_file.read(Path(env_file.NAME)).keys()
    return [
        f"{name} is set, but there is no such setting: did you mean {meant}?"
        for name, meant in find_misspelt(names).items()
    ]


def _webhook_hours(settings: Settings) -> list[str]:
    if settings.webhook_hours <= USUAL_HOURS:
        return []
    return [
        f"WEBHOOK_HOURS is {settings.webhook_hours}: requests that the mail provider signed that long ago are "
        "accepted; remove it once the delayed mail has come"
    ]


def _late_deadlines(settings: Settings) -> list[str]:
    """Report deadlines that come only after a refund has expired."""
    waits = settings.waits
    notes = []
    if waits.approval_reminder >= waits.approval_expiry:
        notes.append(
            "APPROVAL_REMINDER_SECONDS is not below APPROVAL_EXPIRY_SECONDS, so refunds expire before a "
            "manager is reminded: lower it, or raise APPROVAL_EXPIRY_SECONDS"
        )
    if len(settings.shop.manager_emails) > 1 and waits.approval_escalation >= waits.approval_expiry:
        notes.append(
            "APPROVAL_ESCALATION_SECONDS is not below APPROVAL_EXPIRY_SECONDS, so refunds expire before "
            "another manager is asked: lower it, or raise APPROVAL_EXPIRY_SECONDS"
        )
    return notes


def _database_problems() -> list[str]:
    try:
        check_schema(services.current().database)
        return []
    except SchemaProblem as problem:
        return [str(problem)]
    except sa.exc.DBAPIError as problem:
        return [explain(problem)]


def _wrong_clock() -> list[str]:
    skew = find_skew(services.current().database)
    return [tell_skew(skew)] if abs(skew) > SKEW_WORTH_A_WORD else []


def _standstill(connection: sa.Connection, now: datetime) -> Iterator[str]:
    """Report what a person has to start, to replay or to look at."""
    if connection.scalar(workers.alive(connection).limit(1)) is None:
        yield "no worker is alive: start `flask worker`, or serve with MAILAGENT_ROLE=all"
    failed_runs = services.current().workflow_client.tables.failed_runs()
    for workflow, number in metric_figures.count_failed(connection, failed_runs).items():
        have = "run has" if number == 1 else "runs have"
        yield f"{number} {workflow} {have} failed: repair the cause, then replay or dismiss them at /ops"
    samples = metric_figures.waiting(connection, now)
    oldest = {each.labels: each.value for each in samples if each.metric is metric.OLDEST}
    for what, (seconds, words) in LONGEST_WAITS.items():
        if oldest[what,] > seconds:
            since = now - timedelta(seconds=oldest[what,])
            yield f"{words} since {since:%Y-%m-%d %H:%M} UTC: see what is stuck (docs/operate.md)"


def _outages(connection: sa.Connection) -> list[str]:
    """Report providers that refuse our account. Operators get no mail if it is the mail provider."""
    providers = services.current().providers
    outages = [each for each in incidents.list_open(connection) if each.is_outage]
    texts = [tell_incident(each.incident, providers) for each in outages]
    return [
        f"{text.title}, since {each.since:%Y-%m-%d %H:%M} UTC ({each.why}). {text.to_do}"
        for each, text in zip(outages, texts, strict=True)
    ]


def _open_breakers(connection: sa.Connection) -> list[str]:
    """Report providers that we do not call now. This ends by itself."""
    live = services.current()
    found, now = circuit_breakers.list_open(connection, live.providers), live.now()
    return [tell_breaker(provider, each, now) for provider, each in found.items()]


def _mail_problems(connection: sa.Connection, shop: Shop) -> list[str]:
    """Report managers, team members and operators whom our mail does not reach."""
    named = {
        "TEAM_EMAILS": shop.team_emails,
        "MANAGER_EMAILS": shop.manager_emails,
        "OPS_EMAILS": shop.ops_emails,
    }
    settings_of = {
        address: ", ".join(name for name, addresses in named.items() if address in addresses)
        for address in shop.people
    }
    problems = []
    for address, names in settings_of.items():
        lost = outbound.count_lost_lately(connection, address)
        if lost:
            which = f"the last {lost} mails" if lost > 1 else "the last mail"
            problems.append(
                f"{which} to {address} ({names}) did not arrive: correct the setting or the mailbox"
            )
    return problems


def _suppressed_customers(connection: sa.Connection, shop: Shop) -> list[str]:
    count = len(set(suppressions.list_suppressed(connection)) - set(shop.people))
    if not count:
        return []
    return [f"nothing is sent to customers' addresses that bounced or complained: {count} of them"]


def _renamed_policy(connection: sa.Connection, policy: Policy) -> list[str]:
    version = policies.version_of(connection, policy)
    if version == policy.version:
        return []
    return [
        f"the policy {policy.version} had another text before, so this one is recorded as {version}: give it "
        "a version of its own"
    ]


def _version_problems() -> list[str]:
    """Name it when the workers of this release get no new runs: it was rolled back."""
    latest = services.current().workflow_client.runs.latest_version()
    if latest in (None, engine.APPLICATION_VERSION):
        return []
    return [
        f"new runs go to workers of version {latest} only, and this release is version"
        f" {engine.APPLICATION_VERSION}: upgrade, or make it the latest again (docs/upgrades.md)"
    ]


def _runs_of_other_versions() -> list[str]:
    """Name the runs that this release's workers leave alone: those of their own release have to end them."""
    counts = services.current().workflow_client.runs.count_of_other_versions()
    return [
        f"{count} {'run waits' if count == 1 else 'runs wait'} for workers of version {version}, and this"
        f" release is version {engine.APPLICATION_VERSION}: keep a worker of that release until they have"
        " ended (docs/upgrades.md)"
        for version, count in sorted(counts.items())
    ]


def _queue_problems(client: WorkflowClient) -> list[str]:
    missing = client.runs.missing_queues()
    if not missing:
        return []
    return [
        f"no worker has ever run on this database (queues {', '.join(missing)} are not registered): "
        "start `flask worker`, or serve with MAILAGENT_ROLE=all"
    ]
