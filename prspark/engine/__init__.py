"""How it runs on Spark."""
