"""All objects within boxes and polygons: covered with discs, or partition by partition where zones are many."""
