"""What readers of files share: fields, times, positions, counts, and the tables they end in."""
