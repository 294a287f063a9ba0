"""Standing questions: subscriptions that stay, and rows that are held against them as they arrive; no Spark."""
