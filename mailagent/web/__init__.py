"""HTTP: webhooks and pages. A request verifies, writes rows, wakes, answers; it never works on a case."""
