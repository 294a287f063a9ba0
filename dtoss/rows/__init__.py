"""What makes a row usable: what its columns mean, typed values of it, and why it cannot be taken; no files."""
