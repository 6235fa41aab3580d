"""All that is asked of DuckDB: SQL is run, rows are read, files are written, and all of it can be stopped."""
