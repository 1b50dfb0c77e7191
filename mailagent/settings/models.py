"""The settings of the models: the agent's, and the shadow's, which is asked about a share of the live mail."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import PlainValidator

from mailagent.domain.operations.model_cost import (
    ALARM_PERCENT,
    DailyBudget,
    TokenPrices,
    parse_amount,
    parse_prices,
)
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.settings import types
from mailagent.settings.topic import Topic, setting


class OpenAI(Topic):
    """OpenAI."""

    openai_api_key: types.Key | None = setting("API key of the model's provider")
    openai_base_url: types.Url | None = setting("a server with the Responses API", shown="OpenAI's")
    openai_model: types.Line = setting("the model that answers mail", "gpt-5.4-mini")
    openai_prompt: Annotated[str, PlainValidator(types.parse_prompt)] | None = setting(
        "path of a file to use instead of what `flask prompt show` prints: "
        "[docs/evals.md](docs/evals.md#change-the-prompt)"
    )
    openai_timeout_seconds: Annotated[int, types.whole(600)] = setting(
        "how long to wait for the next byte of an answer; a small server of your own may need more",
        60,
    )
    check_model: types.Line | None = setting(
        "lets replies have words of the model's own, if this cheaper model has read them and doubts nothing: "
        "[docs/configure.md](docs/configure.md#a-second-reader)",
        name="OPENAI_CHECK_MODEL",
    )
    token_prices: Annotated[TokenPrices, PlainValidator(parse_prices)] | None = setting(
        "the model's price in USD per million tokens: `input,cached,output` or "
        "`input,cached,output,cache_write`; without it `/ops` shows tokens only",
        name="OPENAI_PRICES",
    )
    budget: Annotated[Decimal | Literal["none"], PlainValidator(types.parse_budget)] | None = (
        setting(
            "the most that the model may cost a day (UTC), in USD; above it, mail waits for the next day. "
            "Needs `OPENAI_PRICES`. `none`: no limit. Required in production",
            name="OPENAI_DAILY_BUDGET",
        )
    )
    budget_alarm_percent: Annotated[int, types.whole(100)] = setting(
        "at this percentage of the daily budget, operators get a mail",
        ALARM_PERCENT,
        name="OPENAI_BUDGET_ALARM_PERCENT",
    )
    requests_per_minute: types.Limit = setting(
        "the most model calls per minute, of all workers together; `0`: no limit: "
        "[docs/monitoring.md](docs/monitoring.md#limits-and-fairness)",
        0,
        name="OPENAI_REQUESTS_PER_MINUTE",
        shown="–",
    )
    tokens_per_minute: types.Limit = setting(
        "the most tokens per minute, of all workers together; `0`: no limit",
        0,
        name="OPENAI_TOKENS_PER_MINUTE",
        shown="–",
    )

    @property
    def rate_limit(self) -> RateLimit:
        return RateLimit(self.requests_per_minute or None, self.tokens_per_minute or None)

    @property
    def daily_budget(self) -> DailyBudget | None:
        if self.budget is None or self.budget == "none":
            return None
        return DailyBudget(self.budget, self.budget_alarm_percent)


class ShadowTopic(Topic):
    """Shadow."""

    shadow_share: Annotated[int, types.whole(100)] | None = setting(
        "percentage of conversations about which a second configuration is asked after the answer, for "
        "`/ops/comparisons`; it sends nothing: [docs/evals.md](docs/evals.md#shadow)"
    )
    shadow_model: types.Line | None = setting("its model", shown="`OPENAI_MODEL`")
    shadow_api_key: types.Key | None = setting(
        "a key of its own, of a project with rate limits of its own; with the agent's, it is asked only"
        " while no mail waits",
        shown="`OPENAI_API_KEY`",
    )
    shadow_prompt: Annotated[str, PlainValidator(types.parse_prompt)] | None = setting(
        "path of a file with its prompt, as `OPENAI_PROMPT`", shown="`OPENAI_PROMPT`"
    )
    shadow_prices: Annotated[TokenPrices, PlainValidator(parse_prices)] | None = setting(
        "its model's prices, as in `OPENAI_PRICES`", shown="`OPENAI_PRICES`"
    )
    shadow_daily_budget: Annotated[Decimal, PlainValidator(parse_amount)] | None = setting(
        "the most that it may cost a day (UTC), in USD; required with `SHADOW_SHARE`"
    )
