-- suggest: taken
-- question: Which names can a new view not have?
-- reads: the catalog of DuckDB
-- returns: table_name
SELECT table_name FROM duckdb_tables()
UNION ALL
SELECT view_name FROM duckdb_views()
