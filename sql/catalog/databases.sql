-- catalog: databases
-- question: Which databases are attached, which of them can be written, and from which files are they?
-- reads: the catalog of DuckDB
-- returns: database_name, readonly, path (NULL in memory)
SELECT database_name, readonly, path
FROM duckdb_databases()
WHERE NOT internal
ORDER BY database_name ASC
