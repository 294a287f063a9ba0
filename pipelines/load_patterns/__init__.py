"""From requests to patterns: what each reads, sums of that, patterns of the sums, and live ones of a log; no Spark."""
