"""The Voronoi diagram of one set of sites, and its polygons; no partitions, ids or files."""
