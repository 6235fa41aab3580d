-- session: current
-- question: Where do unqualified names live, and where are names looked up?
-- reads: the session; a macro in the current database may have the name of any function, so DuckDB's own are asked for
-- returns: one row: catalog_name, schema_name, search_path
SELECT
    system.main.current_database() AS catalog_name,
    system.main.current_schema() AS schema_name,
    system.main.current_setting('search_path') AS search_path
