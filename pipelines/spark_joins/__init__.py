"""Joins of DataFrames in tasks of Spark: what those with a store, with zones and with a history share."""
