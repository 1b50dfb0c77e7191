"""Log lines with ids, and OpenTelemetry spans. Neither contains text of people."""
