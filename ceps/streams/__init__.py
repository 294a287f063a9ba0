"""Groups of a stream's keys on workers: how even loads are, what noise explains, relief, transitions that are kept."""
