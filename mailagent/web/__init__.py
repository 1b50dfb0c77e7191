"""HTTP: webhooks, pages and the API. A request verifies, writes rows, wakes a workflow, and responds."""
