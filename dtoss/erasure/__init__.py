"""Who is forgotten in a store or a history, and which texts speak of whom: ids as keyed hashes, none in clear."""
