"""Letters as the world sends them, one oddity each, and the program that posts a folder of mail.

The letters are the `.eml` files beside this; `expected.toml` says what must come of each.
"""
