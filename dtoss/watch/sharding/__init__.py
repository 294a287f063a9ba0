"""Which worker answers for which rows of a watch: routing cells, what each worker stores, and rows sent to workers."""
