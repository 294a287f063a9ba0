"""Kinds of questions about places or shapes: what each takes and tells, how an index or several shares answer it."""
