"""Where windows of a store lie: their folder, documents of commits, what was asked for, sets, plans of batches."""
