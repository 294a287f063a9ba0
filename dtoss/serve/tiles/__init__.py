"""Tiles of one snapshot for the map, and what the map is told of a snapshot that never changes."""
