"""HTTP: webhooks, pages and the API. A view verifies the request, writes rows, enqueues or wakes a run, and
responds."""
