"""What commands share: options with one meaning each, notes on stderr, tables, signals, distances as people write."""
