"""Settings beside each other: what is wrong with a set of them, each of which is sound."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mailagent.adapters import gateways
from mailagent.adapters import setting_values as values
from mailagent.adapters.templates import template_check
from mailagent.domain.shop import Shop, person_of

if TYPE_CHECKING:
    from mailagent.settings import Settings


def find_problems(settings: Settings) -> list[str]:
    """Return what is wrong with settings beside each other, each of which is sound."""
    problems = _problems_of_managers(settings) + _problems_of_language(settings)
    problems += _problems_of_role(settings) + _problems_of_gateway(settings)
    problems += _problems_of_console(settings) + _problems_of_tracing(settings)
    problems += _problems_of_cost(settings)
    if settings.production:
        problems += _problems_in_production(settings)
    return problems


def _problems_of_managers(settings: Settings) -> list[str]:
    managers = settings.shop.manager_emails
    people: dict[str, list[str]] = {}
    for manager in managers:
        people.setdefault(person_of(manager), []).append(manager)
    problems = [
        f"MANAGER_EMAILS: {' and '.join(addresses)} are one mailbox, so one person would be asked twice; "
        "name everybody once"
        for addresses in people.values()
        if len(addresses) > 1
    ]
    if settings.policy.four_eyes_above and len(managers) < 2:
        problems.append(
            "MANAGER_EMAILS: names one manager, but the policy has four_eyes_above, which two approve; "
            "add another"
        )
    return problems


def _problems_of_language(settings: Settings) -> list[str]:
    language = settings.default_language
    missing = template_check.find_untranslated(language, settings.mail_templates)
    if not missing:
        return []
    return [
        f"DEFAULT_LANGUAGE: {language!r} has no {', '.join(missing)}; use one of "
        f"{', '.join(template_check.list_languages(None))}, or write them in MAIL_TEMPLATES"
    ]


def _problems_of_cost(settings: Settings) -> list[str]:
    if settings.daily_budget is None or settings.token_prices is not None:
        return []
    return ["OPENAI_DAILY_BUDGET: needs OPENAI_PRICES, or nobody knows what a call costs"]


def _problems_of_tracing(settings: Settings) -> list[str]:
    if not settings.otlp_endpoint or _is_installed("opentelemetry-exporter-otlp-proto-http"):
        return []
    return [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the packages for it are missing: pip install "
        f"'dbos[otel]=={version('dbos')}', or leave it out"
    ]


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _problems_of_console(settings: Settings) -> list[str]:
    """The console's client is a package of its own, which works with its very own version of dbos only."""
    if not settings.conductor_key or not settings.runs_workflows:
        return []
    wanted = version("dbos")
    try:
        found = version("dbos-enterprise")
    except PackageNotFoundError:
        found = None
    if found == wanted:
        return []
    what = "its package is missing" if found is None else f"dbos-enterprise is {found}"
    return [
        f"DBOS_CONDUCTOR_KEY is set, but {what}: pip install 'dbos[enterprise]=={wanted}', or leave it out"
    ]


def _problems_of_gateway(settings: Settings) -> list[str]:
    return [
        problem
        for provider in gateways.list_providers()
        for problem in provider.find_problems(settings)
    ]


def _problems_of_role(settings: Settings) -> list[str]:
    if settings.role != "all" and settings.database_url.startswith("sqlite"):
        return [
            f"MAILAGENT_ROLE is {settings.role}, but SQLite is for one process: set DATABASE_URL to a "
            "PostgreSQL database, or MAILAGENT_ROLE to all"
        ]
    return []


def _problems_in_production(settings: Settings) -> list[str]:
    needed = _needed_by_people(settings.shop) | _needed_everywhere(settings)
    if settings.runs_workflows:
        needed |= _needed_by_workflows(settings)
    wrong = [text for text, fine in needed.items() if not fine] + _weak_keys(settings)
    return [f"{text} (MAILAGENT_ENV is production)" for text in wrong]


def _needed_everywhere(settings: Settings) -> dict[str, bool]:
    """Return what must hold in production, by what to say when it does not."""
    return {
        "SECRET_KEY: is not set; " + values.HOW_TO_MAKE_ONE: bool(settings.secret_keys),
        "SENDGRID_EVENTS_PUBLIC_KEY: without it anybody can post delivery events, and workers "
        "cannot tell what became of mail": bool(settings.events_keys),
        "SENDGRID_INBOUND_PUBLIC_KEY: without it anybody can post mail": (
            bool(settings.inbound_keys) or not settings.runs_web
        ),
        "STRIPE_WEBHOOK_SECRET: without it nobody hears of refunds that fail later, are made in "
        "Stripe's dashboard, or are charged back": (
            bool(settings.stripe_webhook_secrets)
            or settings.payment_gateway != "stripe"
            or not settings.runs_web
        ),
        "MAILAGENT_DEMO: the demo is not for production": settings.demo_url is None,
        "MAILAGENT_CRASH_AT: planned crashes are for tests": settings.crash_at is None,
    }


def _needed_by_people(shop: Shop) -> dict[str, bool]:
    return {
        "MANAGER_EMAILS: nobody real would decide on refunds; set the managers' addresses": (
            not _is_example(*shop.manager_emails)
        ),
        "TEAM_EMAILS: nobody real would get what the agent hands over; set the team's addresses": (
            shop.team_emails == shop.manager_emails or not _is_example(*shop.team_emails)
        ),
        "OPS_EMAILS: still an example; set the operators' addresses": not _is_example(
            *shop.ops_emails
        ),
        "SUPPORT_ADDRESS: still the example; set the address that customers write to": (
            not _is_example(shop.support_address)
        ),
        "REPLY_DOMAIN: still the example; set the host whose MX points at the mail provider": (
            shop.support_address.endswith(f"@{shop.reply_domain}")
            or not _is_example(shop.reply_domain)
        ),
        "PUBLIC_URL: mailed links need an https address that managers reach": (
            shop.public_url.startswith("https://") and not _is_loopback(shop.public_url)
        ),
    }


def _needed_by_workflows(settings: Settings) -> dict[str, bool]:
    needed = {
        "OPENAI_API_KEY: the key of the model's provider": bool(settings.openai_api_key),
        "OPENAI_DAILY_BUDGET: without it a flood of mail may cost any amount; write what a day may "
        "cost in USD, such as 25, with OPENAI_PRICES, or none for no limit": settings.budget
        is not None,
        "SENDGRID_API_KEY: a key with the Mail Send permission": bool(settings.sendgrid_api_key),
        "OPENAI_BASE_URL: points at this machine, as a stand-in does": not _is_loopback(
            settings.openai_base_url
        ),
        "SENDGRID_BASE_URL: points at this machine, as a stand-in does": not _is_loopback(
            settings.sendgrid_base_url
        ),
    }
    if settings.payment_gateway == "stripe":
        needed |= {
            "STRIPE_API_KEY: is a test key, which moves no money": not (
                settings.stripe_api_key or ""
            ).startswith(("sk_test_", "rk_test_")),
            "STRIPE_API_BASE: points at this machine, as a stand-in does": not _is_loopback(
                settings.stripe_api_base
            ),
        }
    return needed


def _weak_keys(settings: Settings) -> list[str]:
    weak = []
    for key in settings.secret_keys:  # an old one still verifies, so it must be as good
        try:
            values.check_secret(key)
        except ValueError as problem:
            weak.append(f"SECRET_KEY: {problem}")
    return weak


def _is_example(*names: str) -> bool:
    """Whether one of these addresses or hosts is in a domain that is nobody's (RFC 2606)."""
    return any(re.search(r"(\.|@|\A)example(\.(com|net|org))?\Z", name) for name in names)


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104 - recognised, not bound
