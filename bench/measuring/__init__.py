"""What benchmarks share: the machine, races, the positions they use, joins and rebuilds."""
