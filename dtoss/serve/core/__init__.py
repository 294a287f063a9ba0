"""What all rooms of a server stand on: settings, limits, the pool of threads, what is wrong with a request."""
