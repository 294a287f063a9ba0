"""Enorm to the letter, in one process: three operators, punctuations, key groups, and changes while rows flow."""
