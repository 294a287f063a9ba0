"""What all rooms of a server stand on: its settings, its limits, the pool of threads, what is wrong with a request."""
