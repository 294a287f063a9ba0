"""Other systems side by side with ours: the same objects, the same queries, answers checked."""
