-- workload: unreadable
-- question: Which queries read `data`? Those that DuckDB cannot bind where it is a view of a table that is gone.
CREATE TEMP TABLE duckanon_gone AS
SELECT 1 AS x;

CREATE TEMP VIEW data AS
FROM temp.duckanon_gone;

DROP TABLE temp.duckanon_gone
