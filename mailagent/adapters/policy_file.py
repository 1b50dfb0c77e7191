"""The shop's refund policy as a TOML file: docs/policy.md explains every key."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from mailagent.adapters.validation import Record, describe_problems, show
from mailagent.domain.money import parse_currency, parse_money
from mailagent.domain.refunds import policy as domain
from mailagent.domain.refunds.order import method_word
from mailagent.domain.refunds.policy import Policy, same_word
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.remedy import ASKED_FOR, RemedyKind
from mailagent.domain.text import is_one_line

T = TypeVar("T")

_BUILT_IN = Policy()


class PolicyFileProblem(ValueError):
    """The policy file is not valid. `problems`: a sentence for each problem, with its key."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


# --- values ---------------------------------------------------------------------------------------


def _one_line(text: str) -> str:
    if not text.strip() or not is_one_line(text):
        raise ValueError(f"{show(text)} is not a text of one line")
    return text.strip()


def _distinct(elements: list[T]) -> frozenset[T]:
    again = {str(each) for each in elements if elements.count(each) > 1}
    if again:
        raise ValueError(f"has {', '.join(sorted(again))} more than once; remove one")
    return frozenset(elements)


def _has_photo(reasons: frozenset[RefundReason]) -> frozenset[RefundReason]:
    if RefundReason.NOT_DELIVERED in reasons:
        raise ValueError("not_delivered can have no photo; remove it")
    return reasons


def _is_kept(table: dict[RefundReason, int]) -> dict[RefundReason, int]:
    if RefundReason.NOT_DELIVERED in table:
        raise ValueError("not_delivered has nothing to keep; remove it")
    return table


def _has_come(reasons: frozenset[RefundReason]) -> frozenset[RefundReason]:
    if RefundReason.NOT_DELIVERED in reasons:
        raise ValueError("not_delivered cannot come back; remove it")
    return reasons


def _asked_for(kind: RemedyKind) -> RemedyKind:
    if kind not in ASKED_FOR:
        raise ValueError(f"{kind.value!r} is set by the table return_first")
    return kind


def _with_keys(table: object) -> object:
    """Return pairs of key and value, because the decimals of an amount depend on its currency, the key."""
    return {key: (key, table[key]) for key in table} if isinstance(table, dict) else table


def _amount(pair: tuple[str, object]) -> int:
    currency, text = pair
    return parse_money(text, parse_currency(currency)).minor


def _compare_keys(table: dict[str, int], compared: Callable[[str], str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, days in table.items():
        name = compared(key)
        if not name or name in found:
            raise ValueError(f"the key {key!r} is empty or a duplicate; remove it")
        found[name] = days
    return found


Text = Annotated[str, Field(max_length=500), AfterValidator(_one_line)]
Reason = Annotated[RefundReason, Field(strict=False)]  # TOML has no enums
Texts = Annotated[list[Text], AfterValidator(_distinct)]
Words = Annotated[list[Annotated[Text, AfterValidator(same_word)]], AfterValidator(_distinct)]
Methods = Annotated[list[Annotated[Text, AfterValidator(method_word)]], AfterValidator(_distinct)]
Reasons = Annotated[list[Reason], AfterValidator(_distinct)]
RemedyKinds = Annotated[
    list[Annotated[RemedyKind, Field(strict=False), AfterValidator(_asked_for)]],
    AfterValidator(_distinct),
]
Amounts = Annotated[  # minor units by currency
    dict[str, Annotated[int, PlainValidator(_amount)]], BeforeValidator(_with_keys)
]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Days = Annotated[int, Field(ge=1, le=3650)]
WindowDays = Annotated[int, Field(ge=0, le=3650)]
CategoryDays = Annotated[
    dict[str, WindowDays], AfterValidator(lambda table: _compare_keys(table, same_word))
]
Percent = Annotated[int, Field(ge=1, le=99)]
CategoryPercents = Annotated[
    dict[str, Percent], AfterValidator(lambda table: _compare_keys(table, same_word))
]
ExpectedDays = Annotated[
    dict[str, Annotated[int, Field(ge=0, le=90)]],
    AfterValidator(lambda table: _compare_keys(table, method_word)),
]


# --- tables, as in the domain -----------------------------------------------------------------------


class Sets(Record):
    model_config = ConfigDict(validate_default=True)  # `[]` becomes a set, too


class Named(Sets):
    item_ids: Texts = []
    categories: Words = []


class AlwaysAsk(Named):
    reasons: Reasons = []
    methods: Methods = []


class Cap(Record):
    count: Count | None = None
    money: Amounts = {}

    @model_validator(mode="after")
    def _caps_something(self) -> Cap:
        if not self.money and self.count is None:
            raise ValueError("has neither money nor count; add one, or remove the table")
        return self


class CustomerCap(Cap):
    days: Days = domain.CustomerCap().days


class Caps(Record):
    order: Cap | None = None
    customer: CustomerCap | None = None
    day: Cap | None = None


class Goodwill(Record):
    most_percent: Annotated[int, Field(ge=1, le=100)]
    valid_days: Days = domain.Goodwill(1).valid_days


class KeepOffers(Record):
    percent_by_reason: Annotated[dict[Reason, Percent], AfterValidator(_is_kept)] = {}
    percent_by_category: CategoryPercents = {}
    valid_days: Days = domain.KeepOffers({}).valid_days


class LateParcels(Record):
    ask_after_days: WindowDays | None = None
    refund_after_days: WindowDays | None = None


class Draft(Sets):
    refunds_above: Amounts = {}
    unasked_reasons: Reasons = []


class Remedies(Sets):
    offered: RemedyKinds = sorted(ASKED_FOR)
    task_days: Annotated[int, Field(ge=1, le=90)] = domain.Remedies().task_days
    change_address_by_source: bool = False


class ReturnFirst(Sets):
    reasons: Annotated[Reasons, AfterValidator(_has_come)]
    instructions: Text
    days: Annotated[int, Field(ge=1, le=365)] = 14
    restock_reasons: Reasons = []


class StoreCredit(Record):
    bonus_percent: Annotated[int, Field(ge=0, le=100)] = 0


class PolicyFile(Record):
    version: Annotated[Text, Field(max_length=80)] | None = None
    return_window_days: WindowDays = _BUILT_IN.return_window_days
    photo_reasons: Annotated[Reasons, AfterValidator(_has_photo)] = Field([], validate_default=True)
    refund_shipping: bool = _BUILT_IN.refund_shipping
    limits: Amounts = dict(_BUILT_IN.limits)
    return_window_days_by_category: CategoryDays = {}
    final_sale: Named = Named()
    always_ask: AlwaysAsk = AlwaysAsk()
    caps: Caps = Caps()
    four_eyes_above: Amounts = {}
    goodwill: Goodwill | None = None
    keep_offers: KeepOffers | None = None
    late_parcels: LateParcels = LateParcels()
    draft: Draft = Draft()
    remedies: Remedies = Remedies()
    return_first: ReturnFirst | None = None
    store_credit: StoreCredit | None = None
    expected_days: ExpectedDays = dict(_BUILT_IN.expected_days)


# --- reading --------------------------------------------------------------------------------------


def load_policy(path: Path) -> Policy:
    """Return the policy in a file. Raises PolicyFileProblem, which names file and keys."""
    try:
        return parse_policy(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise PolicyFileProblem(
            [f"{path} cannot be read ({problem.strerror}); name a TOML file"]
        ) from None
    except PolicyFileProblem as problem:
        raise PolicyFileProblem([f"{path}, {each}" for each in problem.problems]) from None
    except ValueError as problem:
        raise PolicyFileProblem([f"{path}: {problem}"]) from None


def parse_policy(text: str) -> Policy:
    """Return the policy in a text. Raises PolicyFileProblem with every problem and its key."""
    try:
        file = PolicyFile.model_validate(tomllib.loads(text))
    except RecursionError:
        raise PolicyFileProblem(["brackets are nested too deeply (recursion)"]) from None
    except ValidationError as error:
        raise PolicyFileProblem(describe_problems(error, PolicyFile, "the file")) from None
    except ValueError as problem:
        raise PolicyFileProblem([f"is not TOML: {problem}"]) from None
    policy = _to_domain(file, text)
    contradictions = list(_contradictions(policy))
    if contradictions:
        raise PolicyFileProblem(contradictions)
    return policy


def _to_domain(file: PolicyFile, source: str) -> Policy:
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    values = dict(file) | {
        "version": file.version or f"sha256-{digest}",
        "source": source,
        "final_sale": domain.Named(**dict(file.final_sale)),
        "always_ask": domain.Named(**dict(file.always_ask)),
        "caps": _caps(file.caps),
        "goodwill": domain.Goodwill(**dict(file.goodwill)) if file.goodwill else None,
        "keep_offers": domain.KeepOffers(**dict(file.keep_offers)) if file.keep_offers else None,
        "late_parcels": domain.LateParcels(**dict(file.late_parcels)),
        "draft": domain.Draft(file.draft.refunds_above, frozenset(file.draft.unasked_reasons)),
        "remedies": domain.Remedies(**dict(file.remedies)),
        "return_first": domain.ReturnFirst(**dict(file.return_first))
        if file.return_first
        else None,
        "store_credit": domain.StoreCredit(**dict(file.store_credit))
        if file.store_credit
        else None,
    }
    return Policy(**values)


def _caps(caps: Caps) -> domain.Caps:
    return domain.Caps(
        order=domain.Cap(**dict(caps.order or {})),
        customer=domain.CustomerCap(**dict(caps.customer or {})),
        day=domain.Cap(**dict(caps.day or {})),
    )


def _contradictions(policy: Policy) -> Iterator[str]:
    for currency, tier in policy.four_eyes_above.items():
        if tier < policy.limits.get(currency, 0):
            yield (
                f"four_eyes_above.{currency}: is below the limit for refunds without a manager;"
                " write at least that"
            )
    returned = policy.return_first
    for reason in sorted(returned.restock_reasons - returned.reasons if returned else ()):
        yield f"return_first.restock_reasons: {reason} is not in its reasons; add it there"
    for currency, most in policy.draft.unasked_up_to.items():
        if most > policy.limits.get(currency, 0):
            yield (
                f"draft.refunds_above.{currency}: is above the limit for refunds without a manager;"
                " write at most that"
            )
    late = policy.late_parcels
    if late.refund_after_days is not None and late.refund_after_days < (late.ask_after_days or 0):
        yield "late_parcels.refund_after_days: is below ask_after_days; write at least that"
    caps = policy.caps
    for name, cap in (("order", caps.order), ("customer", caps.customer), ("day", caps.day)):
        missing = sorted(policy.limits.keys() - cap.money.keys()) if cap.money else []
        if missing:
            # Without this check, currencies that the cap does not name would have no cap.
            yield (
                f"caps.{name}.money: has no {', '.join(missing)}, which is refunded without a"
                " manager; add it"
            )
