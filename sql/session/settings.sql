-- session: settings
-- question: Which settings has the session?
-- reads: the session
-- returns: name, value as text
SELECT name, value
FROM duckdb_settings()
ORDER BY name ASC
