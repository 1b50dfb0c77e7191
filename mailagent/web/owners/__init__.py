"""Pages for owners and managers: settlements and the report. And the page for customers' votes."""
