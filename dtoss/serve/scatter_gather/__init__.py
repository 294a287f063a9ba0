"""A question asked of all servers of a plan, where this one lacks partitions, and their answers put together."""
