"""What Prometheus' HTTP API answers, as series of points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]  # seconds since 1970, value


class QueryFailed(Exception):
    """Prometheus did not take a query; the text is its own."""


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    points: tuple[Point, ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def parse(answer: Mapping[str, Any]) -> list[Series]:
    """Return the series of an answer, those left out that never were a number (0 / 0 is none).

    Raises QueryFailed.
    """
    if answer["status"] != "success":
        raise QueryFailed(answer.get("error", "Prometheus does not say why"))
    data = answer["data"]
    if data["resultType"] == "scalar":
        found = [Series({}, _numbers([data["result"]]))]
    else:
        found = [
            Series(each["metric"], _numbers(each.get("values") or [each["value"]]))
            for each in data["result"]
        ]
    return [each for each in found if each.points]


def _numbers(pairs: list[tuple[float, str]]) -> tuple[Point, ...]:
    points = ((float(at), float(value)) for at, value in pairs)
    return tuple((at, value) for at, value in points if math.isfinite(value))
