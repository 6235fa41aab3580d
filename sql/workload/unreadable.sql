-- workload: unreadable
-- does: makes of `data` a view of a table that is gone: queries that DuckDB cannot bind then read it
-- reads: nothing
-- returns: a temporary view that cannot be read
CREATE TEMP TABLE duckanon_gone AS
SELECT 1 AS x;

CREATE TEMP VIEW data AS
FROM temp.duckanon_gone;

DROP TABLE temp.duckanon_gone
