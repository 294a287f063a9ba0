"""Between Spark and a watch: rows fitted to its types, the tasks of a batch, layouts, progress."""
