"""Rows against fences and other subscriptions of an index: candidates, then exact matches, each once."""
