"""The settings of a process, read from its environment. `load_settings` reports all problems at once.

The fields are in `topics`, checks that involve several of them in `checks`. Other modules get settings through
`services` and do not read the environment.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from mailagent.domain.shop import Shop, Waits
from mailagent.settings import checks, topics
from mailagent.settings.models import OpenAI, ShadowTopic
from mailagent.settings.topic import Topic
from mailagent.settings.types import HOW_TO_MAKE_ONE
from mailagent.telemetry import log_lines

KEY_FILE = Path(".mailagent-key")


class SettingsProblem(Exception):
    """The settings cannot be used. The message lists every problem, one a line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            "mailagent cannot start with these settings:\n"
            + "\n".join(f"  - {p}" for p in problems)
        )
        self.problems = tuple(problems)


# pydantic takes the fields of the last base first. So do the reference and the list of problems.
class Settings(
    topics.Observability,
    topics.Load,
    topics.RetentionTopic,
    topics.Deadlines,
    topics.Tokens,
    topics.RefundsAndDrafts,
    topics.OrdersTopic,
    topics.Payments,
    topics.MailProvider,
    ShadowTopic,
    OpenAI,
    topics.Console,
    topics.ShopTopic,
    topics.Process,
):
    """All settings."""

    @property
    def log_format(self) -> str:
        return self.log_format_set or log_lines.FORMATS[self.production]

    @cached_property
    def shop(self) -> Shop:
        return Shop(
            support_address=self.support_address,
            reply_domain=self.reply_domain or self.support_address.rpartition("@")[2],
            manager_emails=self.manager_emails,
            team_emails=self.team_emails or self.manager_emails,
            public_url=self.public_url.rstrip("/"),
            ops_emails=self.ops_emails,
            default_language=self.default_language,
            report_emails=self.report_emails,
            asks_if_helped=self.ask_if_helped == "yes",
            form_senders=self.contact_form_senders,
        )

    @cached_property
    def waits(self) -> Waits:
        own = {name for name in Waits.__dataclass_fields__ if name in Settings.model_fields}
        return Waits(
            **{name: getattr(self, name) for name in own},
            approval_undo_seconds=self.approval_undo_seconds,
        )

    @property
    def approval_undo_seconds(self) -> int:
        """Return the setting. Without it there is no wait in development, where no money moves."""
        if self.approval_undo_seconds_set is not None:
            return self.approval_undo_seconds_set
        return Waits().approval_undo_seconds if self.production else 0


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable, as the reference lists it."""

    name: str
    default: str
    meaning: str
    group: str


def _list_settings() -> Iterator[Setting]:
    for topic in Topic.__subclasses__():
        for field in topic.model_fields.values():
            if field.description:
                group = str(topic.__doc__).rstrip(".")
                yield Setting(str(field.alias), _shown(field), field.description, group)


def _shown(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    shown = extra["shown"] if isinstance(extra, dict) else None
    if shown is not None:
        return str(shown)
    default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    return "–" if default in ("", None) else f"`{default}`"


SETTINGS = tuple(_list_settings())


def load_settings(environ: Mapping[str, str], key_file: Path = KEY_FILE) -> Settings:
    """Return the settings in `environ`. In development, a missing SECRET_KEY is generated into `key_file`.

    Raises SettingsProblem with all problems.
    """
    names = [str(field.alias) for field in Settings.model_fields.values()]
    given = {name: text for name in names if (text := environ.get(name, "").strip())}
    problems, wrong = [], set[str]()
    try:
        settings = Settings.model_validate(given)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            name = str(error["loc"][0])
            wrong.add(name)
            problems += [f"{name}: {each}" for each in error["ctx"]["error"].args]
        settings = Settings.model_validate(
            {name: given[name] for name in given if name not in wrong}
        )
    problems += [each for each in checks.find_problems(settings) if not _names(each, wrong)]
    if problems:
        raise SettingsProblem(problems)
    return settings if settings.secret_keys else _with_secret_key(settings, key_file)


# How other programs call it, and how we do.
_OUR_WORDS = {
    "AGENT": "TEAM", "API": "BASE", "APPROVER": "MANAGER", "EMAIL": "ADDRESS", "KEY": "TOKEN_SECRET",
    "LOGGING": "LOG", "MAIL": "ADDRESS", "OPERATOR": "OPS", "OWNER": "REPORT", "PARSE": "INBOUND",
    "SECRET": "API", "SIGNING": "WEBHOOK", "STAFF": "TEAM", "TOKEN": "KEY", "VERIFICATION": "PUBLIC",
    "WEBHOOK": "EVENTS",
}  # fmt: skip
_UNITS = {"SECOND", "MINUTE", "HOUR", "DAY"}
_OF_LIBRARIES = ("OTEL_", "DBOS__")  # OpenTelemetry and DBOS read many variables themselves


def find_misspelt(names: Iterable[str]) -> dict[str, str]:
    """Return the variables that are no setting but look like one, each with the setting that it looks like."""
    hidden = {str(field.alias) for field in Settings.model_fields.values()}
    unknown = sorted(each for each in set(names) - hidden if not each.startswith(_OF_LIBRARIES))
    return {name: meant for name in unknown if (meant := _meant_by(name.upper()))}


def _meant_by(name: str) -> str | None:
    # AWS_SECRET_KEY and TEST_DATABASE_URL are other programs' own.
    known = [each.name for each in SETTINGS if not name.endswith(f"_{each.name}")]
    words = _words(name)
    if name.endswith("S") and "_" not in name:  # such as MANAGERS: a list of people
        words.append("EMAIL")
    short = [each for each in known if len(words) > 1 and _shortens(words, _words(each))]
    unit = [each for each in known if words[-1] in _UNITS and _shortens(words[:-1], _words(each))]
    typos = [each for each in known if _is_typo(words, _words(each))]
    near = (
        difflib.get_close_matches(name, short or unit, 1, cutoff=0)
        or difflib.get_close_matches(name, typos, 1, cutoff=0.82)
        or difflib.get_close_matches(name, known, 1, cutoff=0.9)
        or [each for each in known if name.startswith(each)]
        or [each.name for each in SETTINGS if name == f"MAILAGENT_{each.name}"]
    )
    return near[0] if near else None


def _shortens(words: list[str], known: list[str]) -> bool:
    """Whether words are a setting's with some left out or replaced. Its unit may always be left out."""
    alike = [{word, *_words(_OUR_WORDS.get(word, word))} & {*known} for word in words]
    is_whole = {*known} - _UNITS <= set[str]().union(*alike)
    return all(alike) and (is_whole or (len(alike) > 1 and known[0] in alike[0]))


def _is_typo(words: list[str], known: list[str]) -> bool:
    """Whether each word is like one of the setting, or the other way round. URI is like URL; USER is not."""
    ways = (words, known), (known, words)
    return any(all(difflib.get_close_matches(word, b, 1, 0.62) for word in a) for a, b in ways)


def _words(name: str) -> list[str]:
    return [re.sub("IES$", "Y", word).rstrip("S") for word in name.split("_")]


def _names(problem: str, settings: set[str]) -> bool:
    return not settings.isdisjoint(re.findall(r"[A-Z_]{4,}", problem))


def _with_secret_key(settings: Settings, key_file: Path) -> Settings:
    """Add the key in a file that only its owner can read. Create the file if there is none."""
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(48))
        key = key_file.read_text("ascii").strip()
    except (OSError, ValueError) as problem:
        raise _key_problem(f"{key_file} cannot be created or read ({problem})") from None
    if not key:
        raise _key_problem(f"{key_file} is empty, so delete it; the next start creates it again")
    return settings.model_copy(update={"secret_keys": (key,)})


def _key_problem(what: str) -> SettingsProblem:
    return SettingsProblem([f"SECRET_KEY: is not set, and {what}. Or {HOW_TO_MAKE_ONE}"])
