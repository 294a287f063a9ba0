"""Between the engines and a history: files that tasks write, keys of files, scans, joins of queries with intervals."""
