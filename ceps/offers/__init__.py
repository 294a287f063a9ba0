"""Ways to rent servers for the same partitions: what each costs, what bounds it, which is best."""
