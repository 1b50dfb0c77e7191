"""Orders in the shop's own system, and their parcels: values only."""
