"""Questions to a history in Spark: the interval of each row that asks, and the rows that answer it."""
