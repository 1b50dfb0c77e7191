"""Asking for a refund: the facts, the policy's decision and its record, for the agent and for the team alike.

A floor of its own, because pages and workflows both propose refunds and must not know each other.
"""
