-- audit: uniqueness
-- question: How many records are alone in their class, so that their quasi-identifiers name one record?
-- reads: class_member(class, value)
-- returns: one row: records BIGINT, unique_records BIGINT (records in classes of one), unique_share DOUBLE
--          (unique_records / records)
-- violation: none; a policy may cap the share, and any k >= 2 forbids a unique record
-- source: Dalenius 1986 (sample uniques), as in sdcMicro
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
),
total AS (
    SELECT
        CAST(sum(members) AS BIGINT) AS records,
        CAST(sum(CASE WHEN members = 1 THEN 1 ELSE 0 END) AS BIGINT) AS unique_records
    FROM class_size
)
SELECT
    total.records,
    total.unique_records,
    CAST(total.unique_records AS DOUBLE) / CAST(total.records AS DOUBLE) AS unique_share
FROM total
