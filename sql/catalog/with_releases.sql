-- catalog: with_releases
-- question: Which attached databases hold releases, and in which of them has someone else taken our name?
-- reads: the columns of every table duckanon.releases
-- returns: database_name, kind: releases (the views were made here), exported (a file for others: no source
--          query), other
SELECT
    database_name,
    CASE
        WHEN count(*) FILTER (WHERE column_name IN ('release_id', 'schema_version', 'view_name', 'table_name')) < 4 THEN 'other'
        WHEN count(*) FILTER (WHERE column_name = 'source_sql') = 1 THEN 'releases'
        ELSE 'exported'
    END AS kind
FROM duckdb_columns()
WHERE schema_name = 'duckanon' AND table_name = 'releases'
GROUP BY database_name
ORDER BY database_name ASC
