"""Letters as the world sends them, one oddity each: the `.eml` files. `expected.toml` says what must come of
each."""
