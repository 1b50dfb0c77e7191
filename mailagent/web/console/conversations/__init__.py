"""Conversations in the console: their lists, their page, and what people do with them."""
