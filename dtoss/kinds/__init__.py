"""Kinds of questions about places: what each takes and tells, how an index or several shares of one answer it."""
