"""Rows against an index of subscriptions: candidates, then exact matches, each once."""
