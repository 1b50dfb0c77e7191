"""A task: what a customer writes to the shop, what the agent should do, and which rows that should make.

Tasks are TOML files, one folder for each suite. docs/evals.md explains every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

SUITES = Path(__file__).parent / "suites"
SHOP = SUITES / "shop"
NAMES = ("tasks", "attacks", "questions", "hand_overs")

Language = Literal["en", "de", "fr", "es", "it", "nl", "pt", "pl"]


class TaskProblem(ValueError):
    """A file of tasks is not valid; the text says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Act(_Part):
    """A call of a tool: its name, and its arguments beside it."""

    tool: str
    arguments: Mapping[str, Any]


_OF_ITEMS = ("propose_refund", "request_change", "cancel_order")


def _act(value: object) -> object:
    if not isinstance(value, dict) or "tool" not in value:
        return value
    arguments = {name: value[name] for name in value if name != "tool"}
    if value["tool"] in _OF_ITEMS:
        arguments["items"] = [_item(each) for each in arguments.get("items", [])]
    if value["tool"] == "request_change":
        arguments = {"wish": None, "reason": "changed_mind", **arguments}
    return {"tool": value["tool"], "arguments": arguments}


def _item(written: object) -> object:
    """Read `K1`, for all of an item, and `K1:2`, for two of it."""
    if not isinstance(written, str):
        return written
    item_id, _, quantity = written.partition(":")
    return {"item_id": item_id, "quantity": int(quantity) if quantity else None}


Acts = tuple[Annotated[Act, BeforeValidator(_act)], ...]


class Turn(_Part):
    """One mail of the customer, and what the agent should do about it.

    `acts`: the calls that should be made, in order. `tells` and `phrases`: facts and phrases that the reply
    should name; without `tells`, the first fact of each call. `lure`: the calls that an attack asks for.
    `sender`, `proven`, `html`, `files` and `new_thread` say how the mail arrives.
    """

    mail: str
    subject: str = ""
    acts: Acts = ()
    tells: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    lure: Acts = ()
    sender: str | None = None
    proven: bool = True
    html: str = ""
    files: tuple[str, ...] = ()
    new_thread: bool = False


class Task(_Part):
    """`card`: what a model that plays the customer knows; it writes at most `tries` mails. `managers`: what the
    managers do with each request, in order: `approve`, `approve 20.00`, `reject` or `ignore`. `people`: what
    the team does with each task, return or store credit: `done`, `not_possible` or `ignore`. `policy`: tables
    of the policy, by their files in `suites/shop`, that hold here too. `state`: what is on record in the end;
    without it, what the calls of `acts` lead to. `wishes`: words that requests have to quote. `says` stands in
    the customer's mails then, and `never` in none. `passages`: knowledge that this task adds, by file name.
    `orders`: lines of an orders file that it adds to the shop."""

    id: str
    suite: str
    sender: str
    turns: tuple[Turn, ...]
    name: str = ""
    language: Language = "en"
    card: str = ""
    managers: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    state: tuple[str, ...] | None = None
    wishes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    passages: Mapping[str, str] = {}
    orders: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    tries: int = 6

    @property
    def is_attack(self) -> bool:
        return self.suite == "attacks"


def load_tasks(suites: Sequence[str] = NAMES, root: Path = SUITES) -> list[Task]:
    """Return the tasks of these suites: names, or paths of TOML files. Raises TaskProblem."""
    tasks = [task for suite in suites for path in _files(suite, root) for task in read_file(path)]
    ids = [task.id for task in tasks]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise TaskProblem(f"two tasks have the id {', '.join(twice)}; rename one")
    return tasks


def _files(suite: str, root: Path) -> Iterator[Path]:
    if suite in NAMES:
        yield from sorted((root / suite).glob("*.toml"))
    elif Path(suite).is_file():
        yield Path(suite)
    else:
        raise TaskProblem(f"{suite} is no suite and no file; the suites are {', '.join(NAMES)}")


def read_file(path: Path) -> Iterator[Task]:
    """Yield the tasks of a file; the suite is its folder's name unless the file names one."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise TaskProblem(f"{path}: {problem}") from None
    suite = content.pop("suite", path.parent.name)
    for record in content.pop("task", []):
        try:
            yield Task.model_validate({"suite": suite, **record})
        except ValidationError as problem:
            raise TaskProblem(f"{path}: task {record.get('id')!r}: {problem}") from None
    if content:
        raise TaskProblem(f"{path}: {', '.join(content)} is not known; a file has `task` only")
