"""HTTP: webhooks and pages. A request verifies, writes rows, rings, answers; it never works on a case."""
