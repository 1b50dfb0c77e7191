"""Timeline entries as pages show them: secrets redacted, codes replaced by labels, amounts formatted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from mailagent import services
from mailagent.domain.mail.left_out import left_out
from mailagent.domain.mail.message import Identity, MailKind, Purpose
from mailagent.domain.operations.model_cost import Tokens, cost_of, format_usd, tokens_of
from mailagent.store.console.timeline import Entry, EntryKind
from mailagent.store.database import Row
from mailagent.web.approvals.attachments import ShownFile, files_of
from mailagent.web.console.labels import (
    DRAFT_STATES,
    IDENTITIES,
    PURPOSES,
    REASONS,
    STATES,
    action_label,
    detail_labels,
    money,
)
from mailagent.web.console.page import SECRET_PURPOSES, mask_code, redact
from mailagent.web.language import ngettext, write_number

Facts = Mapping[str, Any]


def of_use(use: Mapping[str, Tokens]) -> dict[str, Any]:
    """Return the number of calls, the tokens, and the cost if prices are set. `use`: tokens by the model's
    name."""
    total, prices = sum(use.values(), Tokens()), services.current().token_prices
    cost = cost_of(use.values(), prices) if prices else None
    return {
        "calls": total.calls,
        "input_tokens": write_number(total.input),
        "cached_tokens": write_number(total.cached),
        "output_tokens": write_number(total.output),
        "cost": "" if cost is None else format_usd(cost),
    }


def of_entries(
    entries: Iterable[Entry],
    events: Mapping[str, Sequence[Row]],
    codes: Sequence[str],
    files: Mapping[str, Sequence[Row]] | None = None,
) -> list[Entry]:
    """Return entries for a page. `events` and `files` are the delivery events and the files of our mails, by
    outbound id; `codes` are the discount codes to hide."""
    files = files or {}
    return [replace(entry, facts=_shown(entry, events, codes, files)) for entry in entries]


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive entries. `is_folded`: the page folds them, because they are acts of machines, or mail to the
    shop's people that repeats the case."""

    is_folded: bool
    entries: tuple[Entry, ...]

    @property
    def summary(self) -> str:
        """How many entries of each kind there are, such as "2 tool calls, 1 record"."""
        counts = Counter(entry.kind for entry in self.entries)
        return ", ".join(_tell_count(kind, number) for kind, number in counts.items())


def _tell_count(kind: EntryKind, num: int) -> str:
    match kind:
        case EntryKind.MODEL_CALL:
            return ngettext("%(num)s model call", "%(num)s model calls", num)
        case EntryKind.TOOL_CALL:
            return ngettext("%(num)s tool call", "%(num)s tool calls", num)
        case EntryKind.ASK:
            return ngettext("%(num)s request to a manager", "%(num)s requests to managers", num)
        case EntryKind.AUDIT:
            return ngettext("%(num)s record", "%(num)s records", num)
    return ngettext("%(num)s mail to our people", "%(num)s mails to our people", num)


_FOLDED = (EntryKind.MODEL_CALL, EntryKind.TOOL_CALL, EntryKind.ASK, EntryKind.AUDIT)
_TO_CUSTOMERS = frozenset(
    {
        Purpose.REPLY.value,
        Purpose.TEAM_REPLY.value,
        Purpose.RECEIPT.value,
        Purpose.REFUND_OUTCOME.value,
        Purpose.REMEDY.value,
    }
)


def grouped(entries: Iterable[Entry]) -> list[Group]:
    """Return entries in groups, in their order. Consecutive entries that pages fold are in one group."""
    return [Group(folded, tuple(some)) for folded, some in groupby(entries, key=_is_folded)]


def _is_folded(entry: Entry) -> bool:
    if entry.kind is EntryKind.MAIL_OUT:
        return entry.facts["purpose"] not in _TO_CUSTOMERS
    return entry.kind in _FOLDED


def _shown(
    entry: Entry,
    events: Mapping[str, Sequence[Row]],
    codes: Sequence[str],
    files: Mapping[str, Sequence[Row]],
) -> Facts:
    facts = entry.facts
    if entry.kind is EntryKind.MAIL_IN:
        return mail_in(facts, codes)
    if entry.kind is EntryKind.MAIL_OUT:
        outbound_id = facts["outbound_id"]
        shown = mail_out(facts, events.get(outbound_id, ()), codes)
        return {**shown, "files": files.get(outbound_id, ())}
    texts = ("text", "note", "arguments", "answer")  # written by people or by the model
    redacted = {name: redact(facts[name], codes) for name in texts if facts.get(name)}
    add_labels = _LABELS.get(entry.kind)
    return {**facts, **redacted, **(add_labels(facts) if add_labels else {})}


def _of_call(facts: Facts) -> Facts:
    read, cached, written = (facts[f"{kind}_tokens"] for kind in ("input", "cached", "output"))
    tokens = tokens_of(1, read, min(read, cached), written, facts["cost_micro_usd"])
    return {"use": of_use({facts["model"]: tokens})}


def _of_decision(facts: Facts) -> Facts:
    lowered = facts["amount_minor"]
    return {"amount": None if lowered is None else money(lowered, facts["currency"])}


# The functions that add labels to the facts of an entry, by its kind.
_LABELS: Mapping[EntryKind, Callable[[Facts], Facts]] = {
    EntryKind.MODEL_CALL: _of_call,
    EntryKind.REFUND: lambda facts: {
        "amount": money(facts["amount_minor"], facts["currency"]),
        "reason_label": REASONS[facts["reason"]],
        "state_label": STATES[facts["status"]],
    },
    EntryKind.DECISION: _of_decision,
    EntryKind.COUNTERSIGNATURE: _of_decision,
    EntryKind.GOODWILL: lambda facts: {"code": mask_code(facts["code"])},
    EntryKind.DRAFT: lambda facts: {"state_label": DRAFT_STATES[facts["state"]]},
    EntryKind.AUDIT: lambda facts: {
        "action_label": action_label(facts["action"]),
        "details": detail_labels(facts["details"]),
    },
}


def mail_in(facts: Facts, codes: Sequence[str]) -> Facts:
    """Return the facts of an inbound mail with its files, and with quoted text as a separate fact."""
    identity = Identity(facts["identity"])
    return {
        **facts,
        "subject": redact(facts["subject"], codes),
        "new_text": redact(facts["new_text"], codes),
        "left_out": redact(left_out(facts["body"], facts["new_text"]), codes),
        "proven": identity.proven,
        "identity_label": IDENTITIES[identity],
        "files": _files(facts),
    }


def _files(facts: Facts) -> list[ShownFile]:
    if facts["kind"] == MailKind.CUSTOMER.value:
        return files_of(facts)
    problem = "only files of customers' mail can be saved here"
    return [replace(each, problem=problem, photo=False) for each in files_of(facts)]


def mail_out(facts: Facts, events: Sequence[Row], codes: Sequence[str]) -> Facts:
    """Return the facts of an outbound mail with its delivery events; without the text if that has a secret
    link."""
    secret = facts["purpose"] in SECRET_PURPOSES
    return {
        **facts,
        "secret": secret,
        "subject": redact(facts["subject"], codes),
        "text": "" if secret else redact(facts["text"], codes),
        "purpose_label": PURPOSES.get(facts["purpose"], facts["purpose"].replace("_", " ")),
        "events": events,
    }
