"""How many tokens a text is, about: no tokenizer is at hand for every model that may be asked."""

from __future__ import annotations

# OpenAI, "What are tokens and how to count them?": a token is about four characters of English text.
# Letters that take several bytes take more tokens, which counting bytes bears in mind.
BYTES_OF_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is: a fourth of its bytes in UTF-8, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_OF_TOKEN)


def first_tokens(text: str, most: int) -> str:
    """Return the beginning of a text that is about `most` tokens; all of it if it is no more."""
    return text.encode("utf-8", "replace")[: most * BYTES_OF_TOKEN].decode("utf-8", "ignore")


def last_tokens(text: str, most: int) -> str:
    """Return the end of a text likewise."""
    data = text.encode("utf-8", "replace")
    return data[max(0, len(data) - most * BYTES_OF_TOKEN) :].decode("utf-8", "ignore")
