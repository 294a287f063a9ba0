"""Rows that were told, in the order in which they were acknowledged; nothing of places, indexes or stores."""
