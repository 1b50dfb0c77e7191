"""What a stranger can do to the app: each test attacks the whole of it, as it is served."""
