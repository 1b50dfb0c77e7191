"""The shop: its addresses, its people, its time-outs and retention periods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mailagent.domain.mail.authentication import ascii_domain

# Domains under which a provider delivers to the same mailbox.
_SAME_DOMAIN = {
    "googlemail.com": "gmail.com",
    "me.com": "icloud.com",
    "mac.com": "icloud.com",
    "pm.me": "proton.me",
    "protonmail.com": "proton.me",
}
# Characters that a provider ignores before the @: https://support.google.com/mail/answer/7436150 and
# https://proton.me/support/creating-aliases. With other providers, a dot makes another mailbox.
_IGNORED = {"gmail.com": ".", "proton.me": "._-"}


def person_of(address: str) -> str:
    """Return the same text for all addresses that lead to one mailbox, so as to compare people.

    It has no capitals, no tag behind a plus (RFC 5233), no characters that the provider ignores, and the domain
    in A-label form (RFC 5890). Do not send mail to it.
    """
    local, _, domain = address.strip().casefold().rpartition("@")
    host = ascii_domain(domain) or domain
    host = _SAME_DOMAIN.get(host, host)
    local = local.partition("+")[0] or local
    kept = "".join(letter for letter in local if letter not in _IGNORED.get(host, ""))
    return f"{kept or local}@{host}"


# Free-mail domains, where anyone can have a mailbox. Exact names only: anyone can own another `live.*`, and
# would get a limit of its own for each mailbox.
_NATIONAL = {
    "yahoo": "at be ca ch co.id co.in co.jp co.kr co.nz co.th co.uk co.za com com.ar com.au com.br com.co"
    " com.hk com.mx com.my com.ph com.sg com.tr com.tw com.vn cz de dk es fi fr gr hu ie in it nl no pl pt"
    " ro se",
    "hotmail": "be ca ch co.jp co.nz co.th co.uk com com.ar com.au com.br com.tr cz de dk es fi fr gr hu it"
    " nl no se",
    "live": "at be ca ch cl cn co.uk co.za com com.ar com.au com.mx com.pt de dk fi fr ie it jp nl no se",
    "outlook": "at be cl co.id co.th com com.ar com.au com.br com.gr com.tr cz de dk es fr hu ie in it jp kr"
    " lv pt sa sg sk",
    "gmx": "at ch co.uk com de es fr info it net org us",
}
_FREE_MAIL = frozenset(
    "gmail.com msn.com ymail.com rocketmail.com icloud.com aol.com aol.de aol.co.uk aol.fr web.de t-online.de"
    " freenet.de mail.de posteo.de mailbox.org proton.me tuta.io mail.com mail.ru yandex.ru yandex.com"
    " qq.com 163.com 126.com naver.com orange.fr free.fr wanadoo.fr sfr.fr laposte.net libero.it virgilio.it"
    " tiscali.it alice.it tin.it bluewin.ch ziggo.nl kpnmail.nl btinternet.com sky.com talktalk.net wp.pl"
    " o2.pl onet.pl interia.pl seznam.cz uol.com.br bol.com.br bigpond.com comcast.net verizon.net att.net"
    " sbcglobal.net cox.net".split()
) | {f"{name}.{ending}" for name, endings in _NATIONAL.items() for ending in endings.split()}


def rate_limit_key(address: str, registered_domain: Callable[[str], str | None]) -> str:
    """Return the mailbox or domain whose limit a mail counts against: a mailbox at a free-mail provider, else
    the registered domain.

    `registered_domain` returns the domain below a registry's suffix, or None for such a suffix.
    """
    person = person_of(address)
    host = person.rpartition("@")[2]
    return person if host in _FREE_MAIL else registered_domain(host) or host


@dataclass(frozen=True, slots=True)
class ShopAddresses:
    """The shop's own addresses. By them we recognise our own mail that comes back, and mail that is meant for
    us.

    `form_senders`: contact forms send from these.
    """

    support_address: str
    reply_domain: str
    form_senders: tuple[str, ...] = ()

    @property
    def customer_addresses(self) -> tuple[str, ...]:
        """The addresses that customers write to. `any@` stands for every address of the reply domain."""
        return (self.support_address, f"any@{self.reply_domain}")


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop. `manager_emails` are in order of escalation. `public_url`: the base of links in mails.
    `ops_emails` are the operators, `report_emails` the owners. `default_language`: a locale such as `de` or
    `de_CH`, for customers whose language is unknown. `asks_if_helped`: answers ask for a vote.
    `form_senders`: see `ShopAddresses`."""

    support_address: str
    reply_domain: str
    manager_emails: tuple[str, ...]
    team_emails: tuple[str, ...]
    public_url: str
    ops_emails: tuple[str, ...] = ()
    default_language: str = "en"
    report_emails: tuple[str, ...] = ()
    asks_if_helped: bool = False
    form_senders: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The shop's mail domain. We use it as the shop's name."""
        return self.support_address.rpartition("@")[2]

    def locale_for(self, language: str | None) -> str:
        """Return the locale for a reader of `language` (None: unknown). A reader of the shop's own language
        gets the shop's locale, with its formats of amounts and dates."""
        default = self.default_language.replace("-", "_")
        return default if language in (None, default.partition("_")[0]) else language or default

    @property
    def groups_of_people(self) -> tuple[tuple[str, ...], ...]:
        """The team, the managers and the operators, without empty groups; each person only in the first. If our
        mail reaches nobody in one group, we write to the next. Owners are in none."""
        seen: set[str] = set()
        groups = []
        for addresses in (self.team_emails, self.manager_emails, self.ops_emails):
            groups.append(tuple(each for each in addresses if each not in seen))
            seen.update(addresses)
        return tuple(filter(None, groups))

    @property
    def people(self) -> tuple[str, ...]:
        """The addresses of all the shop's people, owners included. Bounces and complaints do not suppress mail
        to them."""
        known = [address for group in self.groups_of_people for address in group]
        return tuple(dict.fromkeys([*known, *self.report_emails]))


@dataclass(frozen=True, slots=True)
class Waits:
    """Time-outs, and how long raw mail is kept. docs/reference.md explains the settings of the same names.
    `sweep_after_seconds`: how long a row waits before the sweep enqueues a run for it."""

    approval_expiry_seconds: int = 7 * 24 * 3600
    approval_reminder_seconds: int = 24 * 3600
    approval_escalation_seconds: int = 2 * 24 * 3600
    approval_undo_seconds: int = 300
    manager_absence_seconds: int = 24 * 3600
    mail_outcome_seconds: int = 600
    unanswered_seconds: int = 4 * 3600
    sweep_after_seconds: int = 60
    raw_mail_days: int = 30
    ops_session_seconds: int = 12 * 3600
    draft_reminder_seconds: int = 4 * 3600

    @property
    def approval_expiry(self) -> timedelta:
        return timedelta(seconds=self.approval_expiry_seconds)

    @property
    def approval_reminder(self) -> timedelta:
        return timedelta(seconds=self.approval_reminder_seconds)

    @property
    def approval_escalation(self) -> timedelta:
        return timedelta(seconds=self.approval_escalation_seconds)

    @property
    def approval_undo(self) -> timedelta:
        return timedelta(seconds=self.approval_undo_seconds)

    @property
    def manager_absence(self) -> timedelta:
        return timedelta(seconds=self.manager_absence_seconds)

    @property
    def raw_mail_kept(self) -> timedelta:
        return timedelta(days=self.raw_mail_days)


# --- retention ------------------------------------------------------------------------------------


# Histories of scheduled runs, at least one a minute. Two days are enough to look into a weekend.
SCHEDULED_RUN_DAYS = 2
# Login links and sessions, after they have expired; login attempts, after they were made.
LOGIN_DAYS = 7
# Workers without a heartbeat, and past absences of managers.
PRESENCE_DAYS = 7
# Model calls: more than a year, to compare the costs of a month with the same month of the year before.
MODEL_CALL_DAYS = 400


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention periods that a shop may set. `run_days`: how long to keep the histories of runs that have
    ended. `mail_days`: how long to keep the texts of conversations without new mail; None: for ever."""

    run_days: int = 30
    mail_days: int | None = None

    def runs_before(self, now: datetime) -> datetime:
        """Return the time before which a run must have ended for its history to be deleted."""
        return now - timedelta(days=self.run_days)

    def scheduled_runs_before(self, now: datetime) -> datetime:
        """Return the time before which a scheduled run must have begun for its history to be deleted."""
        return now - timedelta(days=min(SCHEDULED_RUN_DAYS, self.run_days))

    def text_before(self, now: datetime) -> datetime | None:
        """Return the time since which a conversation must have had no mail for its texts to be deleted; None to
        keep them."""
        return None if self.mail_days is None else now - timedelta(days=self.mail_days)
