"""mailagent: answers a shop's support mail and refunds what its policy allows."""

__version__ = "1.0.0"
