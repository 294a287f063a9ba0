"""What planning is about: requests by partition and time, servers and their prices, the problem as arrays."""
