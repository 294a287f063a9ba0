"""From the text of a condition to what satisfies it: a mask over the partitions, or an index of its own."""
