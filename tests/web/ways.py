"""The two ways of mail that comes in: by one statement, if it refers to nothing, and that of all other mail."""

from __future__ import annotations

from dataclasses import replace

from mailagent import services
from mailagent.store.arrivals import Arrivals
from tests.stage import Stage


def take_long_way(shop: Stage) -> None:
    """Forget how many mails came: to count them is for the long way."""
    shop.live = replace(shop.live, arrivals=Arrivals())
    services.bind(shop.live)


def take_short_way(shop: Stage) -> None:
    take_long_way(shop)
    with shop.live.database.snapshot() as connection:
        for proven in (False, True):
            most = shop.live.limits.mails_per_hour
            assert not shop.live.arrivals.is_used_up(connection, shop.live.now(), most, proven)
