-- functions: serials
-- question: Under which numbers were our functions registered on this connection?
-- reads: the temporary views of this connection
-- returns: serial
SELECT DISTINCT CAST(split_part(view_name, '_', 3) AS INTEGER) AS serial
FROM duckdb_views()
WHERE temporary AND regexp_matches(view_name, '^duckanon_slot_[0-9]+_0$')
ORDER BY serial ASC
