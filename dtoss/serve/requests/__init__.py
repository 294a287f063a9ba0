"""A request from its header to its answer: let in, gathered with others of its turn, passed on, sent piece by piece."""
