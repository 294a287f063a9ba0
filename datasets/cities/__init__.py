"""What generators share: land, cities, taxis, and random numbers without a state."""
