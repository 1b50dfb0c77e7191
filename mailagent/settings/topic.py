"""What all groups of settings have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(
    description: str, default: object = None, *, name: str | None = None, shown: str | None = None
) -> Any:
    """Return the field of one environment variable.

    `name`: the variable, if not the field's name in capitals. `shown`: the default as the reference shows it,
    if not the value. Settings with an empty description are left out of the reference.
    """
    return Field(default, alias=name, description=description, json_schema_extra={"shown": shown})


class Topic(BaseModel):
    """A group of settings. The docstring is its name in the reference."""

    # Validators are built for `Settings` alone, when it is first used.
    model_config = ConfigDict(frozen=True, alias_generator=str.upper, defer_build=True)
