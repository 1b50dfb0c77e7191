"""Durable workflows. Bodies only order steps; every effect stands in `steps`."""
