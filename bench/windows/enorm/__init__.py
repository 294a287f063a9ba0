"""Enorm to the letter, kept to compare with: three operators, punctuations, key groups, changes while rows flow."""
