-- functions: present
-- question: Which of our scalar functions does this database instance have?
-- reads: the catalog of DuckDB
-- returns: function_name
SELECT DISTINCT function_name
FROM duckdb_functions()
WHERE function_name IN ('microaggregate', 'emd_ordered') OR starts_with(function_name, 'duckanon_plan_')
