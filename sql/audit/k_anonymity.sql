-- audit: k_anonymity
-- question: Among how many records does every record hide?
-- reads: class_member(class, value)
-- returns: one row: k BIGINT (records of the smallest class), classes BIGINT, records BIGINT
-- violation: k < the k that was asked for
-- source: Samarati and Sweeney 1998
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
)
SELECT
    min(members) AS k,
    count(*) AS classes,
    CAST(sum(members) AS BIGINT) AS records
FROM class_size
