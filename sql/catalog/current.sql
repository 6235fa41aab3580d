-- catalog: current
-- question: Where do unqualified names live?
SELECT current_database() AS catalog_name, current_schema() AS schema_name
