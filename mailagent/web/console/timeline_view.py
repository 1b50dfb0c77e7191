"""Timeline entries as pages show them: secrets redacted, amounts formatted, tool calls and costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mailagent import services
from mailagent.domain.mail.message import Attachment, Identity, MailKind, is_photo, left_out
from mailagent.domain.operations.model_cost import Tokens, cost_of, format_usd, tokens_of
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.wording import REFUND_REASONS, REFUND_STATES
from mailagent.engine import RecordedStep, Run
from mailagent.store.console.timeline_entries import Entry, EntryKind
from mailagent.store.database import Row
from mailagent.web.approvals.case_files import find_problem
from mailagent.web.console.inbox import PURPOSES
from mailagent.web.console.labels import DRAFT_STATES, action_labels, plain_details
from mailagent.web.console.page import SECRET_PURPOSES, conceal, mask_code
from mailagent.web.console.refund_facts import money
from mailagent.web.console.run_steps import with_text

IDENTITIES: Mapping[Identity, str] = {
    Identity.DKIM: "sender proven",
    Identity.SPF: "sender proven",
    Identity.MAILBOX: "sender proven: answered a mail that only that mailbox got",
    Identity.NONE: "sender not proven",
}


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """One entry, ready for its template, which is chosen by `kind`."""

    at: datetime
    kind: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShownUse:
    """What answering took: how often the model was asked, its tokens, and the cost, if prices are set."""

    calls: int
    input_tokens: str
    cached_tokens: str
    output_tokens: str
    cost: str


def of_use(use: Mapping[str, Tokens]) -> ShownUse:
    """Return what calls of the model took; `use` is by the name of the model."""
    total = sum(use.values(), Tokens())
    cost = cost_of(use.values(), services.current().token_prices)
    return ShownUse(
        total.calls,
        f"{total.input:,}",
        f"{total.cached:,}",
        f"{total.output:,}",
        "" if cost is None or not _has_prices() else format_usd(cost),
    )


def _has_prices() -> bool:
    return services.current().token_prices is not None


def _of_call(facts: Mapping[str, Any]) -> ShownUse:
    read, cached, written = (facts[f"{kind}_tokens"] for kind in ("input", "cached", "output"))
    taken = tokens_of(1, read, min(read, cached), written, facts["cost_micro_usd"])
    return of_use({facts["model"]: taken})


def of_entries(
    entries: Iterable[Entry], events: Mapping[str, Sequence[Row]], codes: Sequence[str]
) -> list[ShownEntry]:
    """Return entries as they are shown. `events` are what became of our mails, by their ids; `codes` are
    the discount codes that no page may hold."""
    return [
        ShownEntry(entry.at, entry.kind.value, _shown(entry, events, codes)) for entry in entries
    ]


def _shown(
    entry: Entry, events: Mapping[str, Sequence[Row]], codes: Sequence[str]
) -> Mapping[str, Any]:
    if entry.kind is EntryKind.MAIL_IN:
        return mail_in(entry.facts, codes)
    if entry.kind is EntryKind.MAIL_OUT:
        return mail_out(entry.facts, events.get(entry.facts["outbound_id"], ()), codes)
    hidden = {name: conceal(entry.facts[name], codes) for name in _WORDS if entry.facts.get(name)}
    more = _MORE.get(entry.kind)
    return {**entry.facts, **hidden, **(more(entry.facts) if more else {})}


# Facts that hold what somebody wrote.
_WORDS = ("text", "note", "arguments", "answer")


def _refund(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "amount": money(facts["amount_minor"], facts["currency"]),
        "why": REFUND_REASONS[RefundReason(facts["reason"])],
        "state_labels": REFUND_STATES[RefundStatus(facts["status"])],
    }


def _decision(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the amount of a decision, if it was lowered."""
    minor = facts["amount_minor"]
    return {"amount": None if minor is None else money(minor, facts["currency"])}


_MORE: Mapping[EntryKind, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    EntryKind.MODEL_CALL: lambda facts: {"use": _of_call(facts)},
    EntryKind.REFUND: _refund,
    EntryKind.DECISION: _decision,
    EntryKind.COUNTERSIGNATURE: _decision,
    EntryKind.GOODWILL: lambda facts: {"code": mask_code(facts["code"])},
    EntryKind.DRAFT: lambda facts: {"state_labels": DRAFT_STATES[facts["state"]]},
    EntryKind.AUDIT: lambda facts: {
        "words": action_labels(facts["action"]),
        "details": plain_details(facts["details"]),
    },
}


def mail_in(facts: Mapping[str, Any], codes: Sequence[str]) -> dict[str, Any]:
    """Return a mail that came in, with its files and what of it was taken for a quotation."""
    identity = Identity(facts["identity"])
    rest = left_out(facts["body"], facts["new_text"])
    return {
        **facts,
        "subject": conceal(facts["subject"], codes),
        "new_text": conceal(facts["new_text"], codes),
        "left_out": conceal(rest, codes),
        "proven": identity.proven,
        "identity_words": IDENTITIES[identity],
        "files": [_file(facts, number, each) for number, each in enumerate(facts["attachments"])],
    }


def _file(facts: Mapping[str, Any], number: int, stored: Mapping[str, Any]) -> dict[str, Any]:
    file = Attachment(**stored)
    problem = find_problem(file, facts["from_address"])
    if facts["kind"] != MailKind.CUSTOMER.value:
        problem = "only files of customers' mail can be saved here"
    return {
        "number": number,
        "photo": bool(facts["kept"]) and not problem and is_photo(file),
        "name": file.name,
        "content_type": file.content_type,
        "size_bytes": file.size_bytes,
        "problem": problem if facts["kept"] else "no longer kept",
    }


def mail_out(
    facts: Mapping[str, Any], events: Sequence[Row], codes: Sequence[str]
) -> dict[str, Any]:
    """Return a mail of ours with what became of it; the text of one that is a key is not in it."""
    secret = facts["purpose"] in SECRET_PURPOSES
    return {
        **facts,
        "secret": secret,
        "subject": conceal(facts["subject"], codes),
        "text": "" if secret else conceal(facts["text"], codes),
        "purpose_words": PURPOSES.get(facts["purpose"], facts["purpose"].replace("_", " ")),
        "events": events,
    }


# --- tool calls -----------------------------------------------------------------------------------


RUNS_READ_MAX = 20


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tool calls as entries of a timeline. `missing`: runs whose history is not kept any more;
    `unread`: how many were not looked at, because a page has its limits."""

    entries: tuple[Entry, ...]
    missing: tuple[str, ...]
    unread: int


def read(run_ids: Sequence[str], since: datetime | None, until: datetime | None) -> ToolCalls:
    """Return the tool calls of some runs between two moments; None leaves that side open."""
    workflow_client = services.current().workflow_client
    read_ids = run_ids[:RUNS_READ_MAX]
    runs = {run_id: workflow_client.runs.find_run(run_id, with_steps=True) for run_id in read_ids}
    entries = (entry for run in runs.values() if run for entry in _of_run(run))
    return ToolCalls(
        tuple(entry for entry in entries if _is_between(entry.at, since, until)),
        tuple(run_id for run_id, run in runs.items() if run is None),
        len(run_ids) - len(read_ids),
    )


def _is_between(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _of_run(run: Run) -> Iterator[Entry]:
    steps = with_text(run.steps)
    for step in sorted(steps, key=lambda step: step.number):
        for number, look in enumerate(_looks(step)):
            at, answer = datetime.fromisoformat(look["at"]), look.get("output")
            yield _entry(run, step, at, look, _word(answer), answer, number)
    for asked, answered in _pairs(steps):
        if asked.started_at is None:
            continue
        at = answered.started_at if answered and answered.started_at else asked.started_at
        answer = _answer(answered.output) if answered else None
        yield _entry(run, asked, at, asked.output, _outcome(answered), answer)


def _looks(step: RecordedStep) -> Sequence[Mapping[str, Any]]:
    """Return what was looked up between two asks of the model, in one step with them."""
    looked = step.output.get("looked") if isinstance(step.output, dict) else None
    return looked if isinstance(looked, list) else ()  # of a refund's claim it is a yes


def _entry(
    run: Run,
    asked: RecordedStep,
    at: datetime,
    call: Mapping[str, Any],
    outcome: str,
    answer: Any,
    number: int | None = None,
) -> Entry:
    place = f"{asked.number:06}" if number is None else f"{asked.number:06}.{number}"
    details = {
        "run_id": run.run_id,
        "tool": str(call["tool"]),
        "arguments": _json(call.get("arguments")),
        "outcome": outcome,
        "answer": _json(answer) if answer is not None else "",
    }
    key = f"{EntryKind.TOOL_CALL.value}:{run.run_id}:{place}"
    return Entry(at, key, EntryKind.TOOL_CALL, details)


def _pairs(
    steps: Iterable[RecordedStep],
) -> Iterator[tuple[RecordedStep, RecordedStep | None]]:
    """Return each step in which the model called a tool, with the step that did it, if it was done."""
    recorded = sorted(steps, key=lambda step: step.number)
    for number, step in enumerate(recorded):
        output = step.output
        if isinstance(output, dict) and output.get("kind") == "call" and "tool" in output:
            following = recorded[number + 1] if number + 1 < len(recorded) else None
            done = following is not None and following.name == output["tool"]
            yield step, following if done else None


def _outcome(answered: RecordedStep | None) -> str:
    """Return in a word or two what came of a call."""
    if answered is None:
        return "not done"
    if answered.error:
        return "failed"
    return _word(answered.output)


def _answer(output: Any) -> Any:
    """Return what a tool answered: of a step of its own, beside what came of it."""
    return output.get("output") if isinstance(output, dict) and "text_id" in output else output


def _word(answer: Any) -> str:
    output = answer if isinstance(answer, dict) else {}
    words = output.get("error") or output.get("outcome") or "done"
    return str(words).replace("_", " ")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
