"""Access to DuckDB: run SQL, read rows, write files, and stop any of these."""
