"""The steps: every effect of the workflows. Rules belong in `domain` or `agent`.

A step returns plain JSON data: DBOS records it, and a later version of the code must read it.
"""
