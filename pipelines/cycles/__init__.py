"""A cycle from updates to files: what arrived, what stands, which of them count, and what is built of those."""
