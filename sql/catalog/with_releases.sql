-- catalog: with_releases
-- question: Which attached databases hold releases?
SELECT database_name
FROM duckdb_tables()
WHERE schema_name = 'duckanon' AND table_name = 'releases'
ORDER BY database_name ASC
