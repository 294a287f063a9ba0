"""Rows on their way into a history: keys of files, files that tasks write."""
