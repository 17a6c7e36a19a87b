"""What is measured: configuration, conversations, groups and the score. Pure Python, no Spark."""
