"""The settings of the shadow: a second configuration that is asked about a share of the live mail."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import PlainValidator

from mailagent.domain.operations.model_cost import TokenPrices, parse_amount, parse_prices
from mailagent.settings import types
from mailagent.settings.topic import Topic, setting


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
        "path of a file with its instructions", shown="those of the agent"
    )
    shadow_prices: Annotated[TokenPrices, PlainValidator(parse_prices)] | None = setting(
        "its model's prices, as in `OPENAI_PRICES`", shown="`OPENAI_PRICES`"
    )
    shadow_daily_budget: Annotated[Decimal, PlainValidator(parse_amount)] | None = setting(
        "the most that it may cost a day (UTC), in USD; required with `SHADOW_SHARE`"
    )
