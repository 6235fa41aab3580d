-- catalog: databases
-- question: Which databases are attached, and which of them can be written?
SELECT database_name, readonly
FROM duckdb_databases()
WHERE NOT internal
ORDER BY database_name ASC
