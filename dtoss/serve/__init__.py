"""The query server: snapshots that are open, requests over HTTP and what answers them, swaps; only dtoss, no Spark."""
