-- catalog: schemas
-- question: Which schemas does every attached database have?
-- reads: the catalog of DuckDB
-- returns: database_name, schema_name
SELECT database_name, schema_name
FROM duckdb_schemas()
ORDER BY database_name ASC, schema_name ASC
