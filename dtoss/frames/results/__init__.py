"""Answers as frames of pandas and GeoPandas."""
