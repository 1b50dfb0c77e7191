"""What is seen from outside while we work: the log's lines and their ids, and spans. Never anybody's words."""
