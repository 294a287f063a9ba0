"""The processes of a server: a parent, its workers, their sockets, and how each of them begins and ends."""
