"""The Spark jobs and the dtoss command."""
