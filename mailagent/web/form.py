"""The exception for an invalid form. The views that show a form parse its fields themselves."""

from __future__ import annotations


class FormProblem(ValueError):
    """A form is not valid, and nothing was recorded. The text says what to change; `field` is the field's
    name."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field
