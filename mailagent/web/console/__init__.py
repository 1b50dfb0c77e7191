"""The console of the shop's people under `/ops`: every page needs a login and a role."""
