"""Who decides: judges, their prompts, replies and limits. No Spark."""
