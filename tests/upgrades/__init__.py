"""How a workflow is changed while refunds wait: the ways that docs/upgrades.md shows, tried."""
