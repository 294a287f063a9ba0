"""Standing questions: where a watch is, what a subscription is, rows that arrive; no Spark."""
