"""A question asked of all servers of a plan, and their answers put together."""
