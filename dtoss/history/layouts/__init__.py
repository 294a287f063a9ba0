"""How the rows of a history lie in files: tiers, the orders by time, place and object; no questions."""
