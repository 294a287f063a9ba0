"""A batch as a function: rows and the state before in, events and the state after out, one commit for all."""
