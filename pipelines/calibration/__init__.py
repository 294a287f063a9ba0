"""Requests over HTTP at a rate: who sends them and when, the highest rate that keeps a limit, what is written of it."""
