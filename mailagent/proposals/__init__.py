"""Proposes refunds, for the agent and for the team: gathers the facts, asks the policy, and records its
decision.

A floor of its own, because pages and workflows both propose refunds and must not know each other.
"""
