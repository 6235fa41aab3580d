-- duckanon run refresh.sql --database hospital.duckdb
-- Once, by hand: CREATE ANONYMIZED VIEW patients_anon AS FROM patients WITH (...);
REFRESH ANONYMIZED VIEW patients_anon;
EXPORT ANONYMIZED VIEW patients_anon TO 'released.parquet' WITH (overwrite = true);
