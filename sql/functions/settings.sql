SELECT name, value FROM duckdb_settings() ORDER BY name ASC
