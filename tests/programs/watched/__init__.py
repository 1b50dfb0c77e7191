"""A loaded shop watched by a real Prometheus: what the dashboard's queries, the alerts and the recorded
rules say of it, beside what the rows say. The last run is in docs/loaded-run.md."""
