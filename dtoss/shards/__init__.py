"""A snapshot shared by several servers: each holds some partitions, and together they answer as one index would."""
