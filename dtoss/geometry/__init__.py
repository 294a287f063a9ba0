"""Places, distances, the order along the curve and users' shapes, on both surfaces; no ids and no partitions."""
