"""Every effect of the workflows, by name. A rule does not belong here but in `domain` or `agent`.

A step returns plain JSON data: DBOS records it, and a later version of the code must read it.
"""
