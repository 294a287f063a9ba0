"""Sessions of Spark, its Java, and how it gets on; nothing of the domain."""
