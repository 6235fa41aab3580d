-- workload: count
-- question: Is there anything to compare?
SELECT count(*) AS records
FROM (
    FROM data
    LIMIT 1
) AS first
