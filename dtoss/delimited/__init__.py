"""Delimited text as rows of strings, by one set of rules for whoever reads it: dialects, lines, blocks of bytes."""
