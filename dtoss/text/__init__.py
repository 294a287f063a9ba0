"""Values in text, read as Spark reads them: whole numbers, numbers, ids and times."""
