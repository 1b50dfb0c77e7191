"""Checks that involve several settings, or that apply in production only."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mailagent.adapters import gateways, mail_providers, order_sources
from mailagent.domain.shop import Shop, person_of
from mailagent.settings.types import HOW_TO_MAKE_ONE, check_secret

if TYPE_CHECKING:
    from mailagent.settings import Settings


def find_problems(settings: Settings) -> list[str]:
    """Return the problems of settings that are each valid by themselves."""
    problems = _find_manager_problems(settings) + _find_loop_problems(settings.shop)
    problems += _find_language_problems(settings)
    problems += _find_process_problems(settings)
    for provider in gateways.list_providers():
        problems += provider.find_problems(settings)
    problems += order_sources.find_problems(settings)
    problems += _find_package_problems(settings)
    if settings.daily_budget is not None and settings.token_prices is None:
        problems.append(
            "OPENAI_DAILY_BUDGET: needs OPENAI_PRICES, because the cost of a call is unknown without it"
        )
    if settings.shadow_share:
        problems += _find_shadow_problems(settings)
    if settings.production:
        problems += _find_production_problems(settings)
    return problems


def _find_shadow_problems(settings: Settings) -> list[str]:
    problems = []
    if settings.shadow_daily_budget is None:
        problems.append("SHADOW_DAILY_BUDGET: is needed with SHADOW_SHARE; write an amount in USD")
    if not (settings.shadow_prices or settings.token_prices):
        problems.append(
            "SHADOW_PRICES: SHADOW_SHARE needs them, or OPENAI_PRICES, to keep to its budget"
        )
    return problems


def _find_manager_problems(settings: Settings) -> list[str]:
    managers = settings.shop.manager_emails
    people: dict[str, list[str]] = {}
    for manager in managers:
        people.setdefault(person_of(manager), []).append(manager)
    problems = [
        f"MANAGER_EMAILS: {' and '.join(addresses)} are one mailbox, so one person would be asked twice; "
        "name each person once"
        for addresses in people.values()
        if len(addresses) > 1
    ]
    if settings.policy.four_eyes_above and len(managers) < 2:
        problems.append(
            "MANAGER_EMAILS: names one manager, but four_eyes_above in the policy needs two; add another"
        )
    return problems


def _find_loop_problems(shop: Shop) -> list[str]:
    """Report people whose mail from us comes back to us, where it counts as our own, unread."""
    people = {
        "MANAGER_EMAILS": shop.manager_emails,
        "TEAM_EMAILS": shop.team_emails if shop.team_emails != shop.manager_emails else (),
        "OPS_EMAILS": shop.ops_emails,
        "REPORT_EMAILS": shop.report_emails,
    }
    support = person_of(shop.support_address)
    return [
        f"{name}: {address} is SUPPORT_ADDRESS, so what we write there comes back to us unread; "
        "name a person's own address"
        for name, addresses in people.items()
        for address in addresses
        if person_of(address) == support
    ]


def _find_language_problems(settings: Settings) -> list[str]:
    language = settings.default_language
    if language == "en":
        return []
    from mailagent.adapters.templates import template_check  # slow to import

    missing = template_check.find_untranslated(language, settings.mail_templates)
    if not missing:
        return []
    return [
        f"DEFAULT_LANGUAGE: {language!r} has no {', '.join(missing)}; use one of "
        f"{', '.join(template_check.list_languages(None))}, or write them in MAIL_TEMPLATES"
    ]


def _find_process_problems(settings: Settings) -> list[str]:
    if settings.role == "all" or not settings.database_url.startswith("sqlite"):
        return []
    return [
        f"MAILAGENT_ROLE is {settings.role}, but SQLite is for one process: set DATABASE_URL to a "
        "PostgreSQL database, or MAILAGENT_ROLE to all"
    ]


def _find_package_problems(settings: Settings) -> list[str]:
    """Report packages that a setting needs. `dbos-enterprise` works with its own version of dbos only."""
    dbos, problems = version("dbos"), []
    if settings.otlp_endpoint and _find_version("opentelemetry-exporter-otlp-proto-http") is None:
        problems.append(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but its packages are missing: pip install "
            f"'dbos[otel]=={dbos}', or remove the setting"
        )
    enterprise = _find_version("dbos-enterprise")
    if settings.conductor_key and settings.runs_workflows and enterprise != dbos:
        found = f"dbos-enterprise is {enterprise}" if enterprise else "its package is missing"
        problems.append(
            f"DBOS_CONDUCTOR_KEY is set, but {found}: pip install 'dbos[enterprise]=={dbos}', or remove the "
            "setting"
        )
    return problems


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- production -----------------------------------------------------------------------------------


def _find_production_problems(settings: Settings) -> list[str]:
    wanted = _wanted_of_shop(settings.shop) | _wanted_of_every_process(settings)
    if settings.runs_workflows:
        wanted |= _wanted_of_workers(settings)
    problems = [problem for problem, fulfilled in wanted.items() if not fulfilled]
    for key in settings.secret_keys:  # old keys still verify, so they must be as strong
        try:
            check_secret(key)
        except ValueError as problem:
            problems.append(f"SECRET_KEY: {problem}")
    return [f"{problem} (MAILAGENT_ENV is production)" for problem in problems]


def _wanted_of_every_process(settings: Settings) -> dict[str, bool]:
    """Return the problems that may be found, each with whether its condition is fulfilled."""
    provider = mail_providers.find(settings.mail_provider)
    return {
        f"SECRET_KEY: is not set; {HOW_TO_MAKE_ONE}": bool(settings.secret_keys),
        f"{provider.events_key_setting}: without it anybody can post delivery events, and it stays unknown "
        "whether mail was delivered": bool(provider.events_keys(settings)),
        f"{provider.inbound_key_setting}: without it anybody can post mail": (
            bool(provider.inbound_keys(settings)) or not settings.runs_web
        ),
        "STRIPE_WEBHOOK_SECRET: without it we learn nothing of refunds that fail later or are made in "
        "Stripe's dashboard, nor of chargebacks": (
            bool(settings.stripe_webhook_secrets)
            or settings.payment_gateway != "stripe"
            or not settings.runs_web
        ),
        "MAILAGENT_DEMO: the demo is not for production": settings.demo_url is None,
        "MAILAGENT_SETTLES: only the demo's shop pays at once": settings.settles is None,
        "MAILAGENT_CRASH_AT: planned crashes are for tests": settings.crash_at is None,
    }


def _wanted_of_shop(shop: Shop) -> dict[str, bool]:
    return {
        "MANAGER_EMAILS: is still the example; set the managers' addresses": (
            not _is_example(*shop.manager_emails)
        ),
        "TEAM_EMAILS: is still an example; set the team's addresses": (
            shop.team_emails == shop.manager_emails or not _is_example(*shop.team_emails)
        ),
        "OPS_EMAILS: is still an example; set the operators' addresses": (
            not _is_example(*shop.ops_emails)
        ),
        "SUPPORT_ADDRESS: is still the example; set the address that customers write to": (
            not _is_example(shop.support_address)
        ),
        "REPLY_DOMAIN: is still the example; set the domain whose MX record points at the mail provider": (
            shop.support_address.endswith(f"@{shop.reply_domain}")
            or not _is_example(shop.reply_domain)
        ),
        "PUBLIC_URL: must be an https address that managers can reach": (
            shop.public_url.startswith("https://") and not _is_loopback(shop.public_url)
        ),
    }


def _wanted_of_workers(settings: Settings) -> dict[str, bool]:
    provider = mail_providers.find(settings.mail_provider)
    wanted = {
        "OPENAI_API_KEY: is not set": bool(settings.openai_api_key),
        "OPENAI_DAILY_BUDGET: is not set, so a flood of mail may cost any amount; set the most that a day may "
        "cost in USD, such as 25, with OPENAI_PRICES; or none for no limit": settings.budget
        is not None,
        f"{provider.key_setting}: is not set; make a key that may send mail": (
            provider.make_sender(settings) is not None
        ),
        "OPENAI_BASE_URL: points at this machine": not _is_loopback(settings.openai_base_url),
        "SENDGRID_BASE_URL: points at this machine": not _is_loopback(settings.sendgrid_base_url),
    }
    if settings.payment_gateway == "stripe":
        is_test_key = (settings.stripe_api_key or "").startswith(("sk_test_", "rk_test_"))
        wanted |= {
            "STRIPE_API_KEY: is a test key, which moves no money": not is_test_key,
            "STRIPE_API_BASE: points at this machine": not _is_loopback(settings.stripe_api_base),
        }
    return wanted


def _is_example(*names: str) -> bool:
    """Whether one of these addresses or domains is reserved for examples (RFC 2606)."""
    return any(re.search(r"(\.|@|\A)example(\.(com|net|org))?\Z", name) for name in names)


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104 - compared, not bound
