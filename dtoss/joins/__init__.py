"""Joins of frames with an index, as GeoPandas has them."""
