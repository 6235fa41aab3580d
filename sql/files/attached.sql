-- files: attached
-- question: Which databases are attached, and from which files?
SELECT database_name, path FROM duckdb_databases() ORDER BY database_name ASC
