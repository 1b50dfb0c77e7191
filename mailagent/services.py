"""The objects that pages and workflow steps use: database, workflow client, model, mail sender, gateway, clock.

`bootstrap` makes and binds them once. They are the only global, because DBOS's workflows and steps are
module-level functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mailagent.adapters import mail_providers
from mailagent.adapters.links import Links
from mailagent.adapters.mail_providers import MailProvider, MailSender
from mailagent.domain.knowledge import Knowledge
from mailagent.domain.mail.conversation import AnswerLimits, Limits
from mailagent.domain.mail.draft import DraftReplies
from mailagent.domain.mail.webhook import USUAL_HOURS
from mailagent.domain.operations.model_cost import DailyBudget, TokenPrices
from mailagent.domain.operations.provider import Providers
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.domain.orders.source import OrderSource
from mailagent.domain.refunds.payment import PaymentGateway
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.shop import Retention, Shop, Waits
from mailagent.engine.client import WorkflowClient
from mailagent.store.database import Database
from mailagent.store.operations.model_calls import Spending

if TYPE_CHECKING:  # slow to import; not every command needs them
    from mailagent.adapters.templates.engine import Templates
    from mailagent.adapters.totp import Totp
    from mailagent.store.mail.arrivals import Arrivals


class Model(Protocol):
    """Answers mail; `adapters.openai.client` has the real one."""

    def ask(
        self,
        instructions: str,
        items: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        cache_key: str,
        customer_hash: str,
        text: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the model's answer, or what to do instead, as plain data: see `ChatModel.ask`."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A second configuration that is asked about `percent` of the conversations, for at most `budget_usd` a
    day. `prompt`: None for the agent's. `has_own_key`: it has an API key of its own, so its calls do not use up
    the agent's limits at the provider."""

    model: Model
    name: str
    percent: int
    budget_usd: Decimal
    prices: TokenPrices
    prompt: str | None = None
    has_own_key: bool = False


@dataclass(frozen=True)
class Services:
    """The services of this process. `now`: the one clock of all processes on this database."""

    database: Database
    workflow_client: WorkflowClient
    shop: Shop
    policy: Policy
    waits: Waits
    links: Links
    providers: Providers
    gateway: PaymentGateway
    model: Model
    sender: MailSender
    mail_provider_name: str
    mail_templates: Path | None = None
    order_source: OrderSource | None = None  # None: orders are imported
    inbound_keys: tuple[str, ...] = ()
    events_keys: tuple[str, ...] = ()
    orders_api_tokens: tuple[str, ...] = ()
    metrics_tokens: tuple[str, ...] = ()
    totp: Totp | None = None  # None: logins to the console have no second factor
    prompt: str | None = None  # None: the agent's own
    token_prices: TokenPrices | None = None  # None: the console shows tokens only
    daily_budget: DailyBudget | None = None
    rate_limit: RateLimit = RateLimit()
    spending: Spending = field(default_factory=Spending)
    webhook_hours: int = USUAL_HOURS
    draft_replies: DraftReplies = DraftReplies.NONE
    knowledge: Knowledge = Knowledge()
    check_model: Model | None = None  # None: no second model reads the words of a reply
    shadow: Shadow | None = None  # None: no second configuration is asked about mail
    retention: Retention = Retention()
    answer_limits: AnswerLimits = field(default_factory=AnswerLimits)
    limits: Limits = field(default_factory=Limits)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def order_source_name(self) -> str | None:
        return self.order_source.name if self.order_source else None

    @cached_property
    def arrivals(self) -> Arrivals:
        from mailagent.store.mail.arrivals import Arrivals

        return Arrivals()

    @cached_property
    def mail_provider(self) -> MailProvider:
        return mail_providers.find(self.mail_provider_name)

    @cached_property
    def templates(self) -> Templates:
        from mailagent.adapters.templates.engine import Templates

        names = {"support_name": self.shop.name, "support_address": self.shop.support_address}
        return Templates(names, self.mail_templates)


_bound: Services | None = None


def bind(services: Services | None) -> None:
    """Make these services current; None at the end of a process."""
    global _bound  # noqa: PLW0603 - the only global
    _bound = services


def current() -> Services:
    """Return the current services. Raises RuntimeError before `bind`."""
    if _bound is None:
        raise RuntimeError("no services are bound: mailagent.bootstrap binds them at start")
    return _bound
