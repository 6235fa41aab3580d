-- evidence: home
-- question: Which database is verified, and where does its connection look names up?
-- A macro in the database may have the name of any function, so these are asked for where only DuckDB's own are.
SELECT
    system.main.current_database() AS catalog_name,
    system.main.current_schema() AS schema_name,
    system.main.current_setting('search_path') AS search_path
