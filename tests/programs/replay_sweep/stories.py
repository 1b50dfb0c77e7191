"""The stories whose runs are replayed: how each comes to the state of interest, and how it has to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mailagent import services
from mailagent.domain.refunds.policy import KeepOffers, LateParcels, Policy, Remedies, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from tests.harness import Harness
from tests.programs.replay_sweep.acts import (
    Act,
    answers,
    chooses_credit,
    comes_to_rest,
    credit_is_given,
    fails_when_woken,
    gets_mails,
    has_draft,
    is_asked,
    manager_says,
    model_names_the_parts,
    no_breaker_opens,
    one_by_one,
    refund_is,
    run_fails,
    sweep_comes,
    team_says,
    team_sends_draft,
    writes,
    writes_first,
)
from tests.round_trips.provider_faults import lost_after, model_says
from tests.round_trips.replays import ClosedBank
from tests.workflows.trouble import failing

Trouble = Callable[[Harness], AbstractContextManager[object]]

KETTLE = "My kettle from order {order} arrived broken. I want my money back."
DESK = "The standing desk of order {order} is damaged, please refund it."
NEVER_MIND = "Never mind, I do not want a refund for order {order} any more."
PERSON = "This is outrageous! I want to talk to a human being, now!"
QUESTION = "Which orders of mine do you have? I forgot the number."
EXCHANGE = "Can I exchange the kettle of {order} for another colour?"
REPLACEMENT = "Please send a replacement for the kettle of {order}, it is damaged."
ADDRESS = "Please change the delivery address of {order} to:\n12 Canary Road, Springfield 12345"
NEW_ADDRESS = "12 New Road, 10117 Berlin"
NEVER_CAME = "The kettle of order {order} never arrived. I want my money back."
CANCEL = "Please cancel my order {order}."
CANCEL_LAMP = "Please cancel the lamp of order {order}."
FOR_EVER = 100_000

DAMAGED = RefundReason.DAMAGED
MANAGERS_OFFER = Policy(keep_offers=KeepOffers({}))
RESTOCKS = ReturnFirst(
    frozenset({DAMAGED}), "Send it to 1 Shop Street.", restock_reasons=frozenset({DAMAGED})
)
RETURN_FIRST = Policy(return_first=ReturnFirst(frozenset({DAMAGED}), "Send it to 1 Shop Street."))
KEEP_OFFERS = Policy(keep_offers=KeepOffers({DAMAGED: 30}))
PENDING = {"status": "pending", "delivered_at": None}
# Two kettles and a lamp; the platform names its payments itself.
SEVERAL = {
    "items": [
        {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"},
        {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "10.00"},
    ],
    "payments": [{"payment_id": "p", "method": "card", "amount": "50.00"}],
}
LATE = {
    "status": "shipped",
    "delivered_at": None,
    "shipments": [
        {"shipment_id": "S1", "status": "in_transit", "last_event_at": "2026-01-02T00:00:00Z"}
    ],
}


class Kind(StrEnum):
    """What the runs of a story are like when they are replayed."""

    FINISHED = "finished"  # nothing may change by a replay
    WAITING = "waiting"  # nothing may change, and what follows comes to the same end
    FAILED = "failed"  # what broke is put right, and a replay brings the story to its end


@dataclass(frozen=True, slots=True)
class End:
    """How a story ends: the refund's state, or those of several by the alphabet, how many mails the customer
    has then, and how many units a platform took back."""

    refund: str | None
    mails: int
    taken_back: int = 0


@dataclass(frozen=True, slots=True)
class Story:
    """`acts` lead to the state in which runs are replayed, with `trouble` until then; `then` follows. `order`:
    how the customers' orders differ from the usual one."""

    name: str
    kind: Kind
    end: End
    acts: tuple[Act, ...]
    then: tuple[Act, ...] = ()
    dear: bool = False
    order: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    trouble: Trouble = lambda _harness: nullcontext()
    shopify: bool = False
    order_server: bool = False

    @property
    def has_link(self) -> bool:
        """Whether a manager was sent a link, by which the case can be seen for ever."""
        return self.dear


@contextmanager
def key_revoked(harness: Harness) -> Iterator[None]:
    harness.faults.openai += [model_says(401, "invalid_api_key")] * FOR_EVER
    yield
    harness.faults.openai.clear()


@contextmanager
def bank_closed(harness: Harness) -> Iterator[None]:
    live = services.current()
    services.bind(replace(live, gateway=ClosedBank(live.database, live.now)))
    yield
    services.bind(live)


@contextmanager
def answers_lost(harness: Harness) -> Iterator[None]:
    """Lose SendGrid's answers to all mail of this time: it has taken each."""
    harness.faults.sendgrid += [lost_after] * FOR_EVER
    yield
    harness.faults.sendgrid.clear()


DRAFTS = {"DRAFT_REPLIES": "all"}
ASKED = (writes(DESK), is_asked, gets_mails(1))

CREDIT = {"REFUND_POLICY": str(Path(__file__).with_name("credit.toml"))}
CHOSEN = (*ASKED, chooses_credit, gets_mails(2))

STORIES = (
    Story("small refund", Kind.FINISHED, End("paid", 2), (writes(KETTLE), gets_mails(2))),
    Story(
        "paid by Shopify", Kind.FINISHED, End("paid", 2), (writes(KETTLE), gets_mails(2)), shopify=True,
    ),
    Story(
        "approved refund", Kind.FINISHED, End("paid", 2),
        (*ASKED, manager_says("approve"), gets_mails(2)), dear=True,
    ),
    Story(
        "rejected refund", Kind.FINISHED, End("rejected", 2),
        (*ASKED, manager_says("reject"), gets_mails(2)), dear=True,
    ),
    Story(
        "expired refund", Kind.FINISHED, End("expired", 2), (*ASKED, gets_mails(2)), dear=True,
        settings={"APPROVAL_EXPIRY_SECONDS": "15"},  # the same steps on a busy machine
    ),
    Story(
        "withdrawn refund", Kind.FINISHED, End("withdrawn", 2),
        (*ASKED, writes(NEVER_MIND), gets_mails(2)), dear=True,
    ),
    Story(
        "exchange", Kind.FINISHED, End(None, 2),
        (writes(EXCHANGE), gets_mails(1), team_says("done"), gets_mails(2)),
    ),
    Story(
        "replacement", Kind.FINISHED, End(None, 2),
        (writes(REPLACEMENT), gets_mails(1), team_says("done"), gets_mails(2)),
    ),
    Story(
        "other address", Kind.FINISHED, End(None, 2),
        (writes(ADDRESS), gets_mails(1), team_says("done"), gets_mails(2)), order=PENDING,
    ),
    Story(
        "address changed by Shopify", Kind.FINISHED, End(None, 2),
        (
            one_by_one(
                model_names_the_parts(NEW_ADDRESS, street="12 New Road", zip="10117", city="Berlin"),
                writes(f"Please change the delivery address of {{order}} to:\n{NEW_ADDRESS}"),
                gets_mails(1), sweep_comes, gets_mails(2),
            ),
        ),
        order=PENDING, policy=Policy(remedies=Remedies(change_address_by_source=True)), shopify=True,
    ),
    Story(
        "late parcel", Kind.FINISHED, End("paid", 2), (writes(NEVER_CAME), gets_mails(2)), order=LATE,
        policy=Policy(late_parcels=LateParcels(refund_after_days=14)),
    ),
    Story(
        "items cancelled by Shopify", Kind.FINISHED, End("paid", 3, 1),
        (writes(CANCEL_LAMP), gets_mails(3)), order=PENDING | SEVERAL, shopify=True,
    ),
    Story(
        "manager's offer", Kind.FINISHED, End("paid, rejected", 4),
        (
            *ASKED, manager_says("offer", offer_percent="30"), gets_mails(2),
            answers("Yes, please."), gets_mails(4),
        ),
        policy=MANAGERS_OFFER, dear=True,
    ),
    Story(
        "goods restocked by Shopify", Kind.WAITING, End("paid", 3, 1),
        (writes(KETTLE), gets_mails(2)), then=(team_says("done"), refund_is("paid"), gets_mails(3)),
        policy=Policy(return_first=RESTOCKS), shopify=True,
    ),
    Story(
        "cancelled order", Kind.FINISHED, End("paid", 3),
        (writes(CANCEL), gets_mails(1), comes_to_rest, team_says("done"), gets_mails(3)),
        order=PENDING,
    ),
    Story(
        "cancelled by the shop's system", Kind.FINISHED, End("paid", 3),
        (one_by_one(writes(CANCEL), gets_mails(3)),),  # so that each run has the same steps
        order=PENDING, order_server=True,
    ),
    Story(
        "accepted offer", Kind.FINISHED, End("paid", 3),
        (writes(KETTLE), gets_mails(1), answers("Yes, please."), gets_mails(3)), policy=KEEP_OFFERS,
    ),
    Story(
        "goods awaited", Kind.WAITING, End("paid", 3), (writes(KETTLE), gets_mails(2)),
        then=(team_says("done"), refund_is("paid"), gets_mails(3)), policy=RETURN_FIRST,
    ),
    Story(
        "store credit", Kind.FINISHED, End("paid", 3),
        (*CHOSEN, manager_says("approve"), credit_is_given, gets_mails(3)), dear=True, settings=CREDIT,
    ),
    Story("hand-over", Kind.FINISHED, End(None, 1), (writes(PERSON), gets_mails(1))),
    Story("question", Kind.FINISHED, End(None, 1), (writes(QUESTION), gets_mails(1))),
    Story(
        "draft that was sent", Kind.FINISHED, End(None, 1),
        (writes(QUESTION), has_draft, team_sends_draft, gets_mails(1)), settings=DRAFTS,
    ),
    Story(
        "SendGrid's answer lost", Kind.FINISHED, End(None, 1),
        (one_by_one(writes(QUESTION), no_breaker_opens),),
        settings={"MAIL_OUTCOME_SECONDS": "6"}, trouble=answers_lost,
    ),
    Story(
        "waiting for the manager", Kind.WAITING, End("paid", 2), ASKED,
        then=(manager_says("approve"), refund_is("paid"), gets_mails(2)), dear=True,
    ),
    Story(
        "store credit that waits for its code", Kind.WAITING, End("paid", 3),
        (*CHOSEN, manager_says("approve"), refund_is("approved")),
        then=(credit_is_given, refund_is("paid"), gets_mails(3)), dear=True, settings=CREDIT,
    ),
    Story(
        "draft that waits", Kind.WAITING, End(None, 1), (writes(QUESTION), has_draft),
        then=(team_sends_draft, gets_mails(1)), settings=DRAFTS,
    ),
    Story(
        "model's key revoked", Kind.FAILED, End("paid", 2), (one_by_one(writes_first(KETTLE), run_fails),),
        then=(refund_is("paid"), gets_mails(2)), trouble=key_revoked,
    ),
    Story(
        "gateway out of order", Kind.FAILED, End("paid", 2), (writes(KETTLE), gets_mails(1)),
        then=(refund_is("paid"), gets_mails(2)), trouble=bank_closed,
    ),
    Story(
        "broken while it waits", Kind.FAILED, End("paid", 2), (*ASKED, fails_when_woken),
        then=(manager_says("approve"), refund_is("paid"), gets_mails(2)), dear=True,
        trouble=lambda _harness: failing("look_at_decision"),
    ),
)  # fmt: skip
