"""What a server tells of its requests: the access log, counts for Prometheus, lines of a log; it answers none."""
