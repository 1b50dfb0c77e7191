"""Values and rules. Standard library only; the time and every other fact is an argument."""
