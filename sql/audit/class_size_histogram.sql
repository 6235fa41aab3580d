-- audit: class_size_histogram
-- question: How many classes are there of each size, and how many records do they hold?
-- reads: class_member(class, value)
-- returns: class_size BIGINT (records), classes BIGINT, records BIGINT (class_size * classes); one row a size
-- violation: none; every row with class_size < k breaks k-anonymity
-- source: Samarati and Sweeney 1998, sizes of the equivalence classes
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
)
SELECT
    members AS class_size,
    count(*) AS classes,
    members * count(*) AS records
FROM class_size
GROUP BY members
