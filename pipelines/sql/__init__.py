"""A store in Spark SQL: a data source and table functions."""
