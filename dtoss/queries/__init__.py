"""Answers from open partitions: batches, threads, hits as kernels find them."""
