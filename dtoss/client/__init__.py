"""An index that a server has open, asked over HTTP with the standard library alone; nothing of the server's."""
