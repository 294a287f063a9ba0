"""The commands that ask a store or a server, and how answers are printed or written."""
