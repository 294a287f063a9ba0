"""Joins of files of places in this process, through Arrow, without Spark."""
