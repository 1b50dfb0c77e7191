"""Forms of people: what is wrong with one. The pages that show a form read its fields themselves."""

from __future__ import annotations


class FormProblem(ValueError):
    """A form is not valid, and nothing was recorded; the text says what to change, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field
