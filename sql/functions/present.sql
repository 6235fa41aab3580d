-- functions: present
-- question: Which of our scalar functions does this database instance have?
SELECT DISTINCT function_name
FROM duckdb_functions()
WHERE function_name IN ('duckanon_plan', 'microaggregate', 'emd_ordered')
