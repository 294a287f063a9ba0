"""A request from its header to its answer: let in, gathered, passed on to who holds a partition, sent by pieces."""
