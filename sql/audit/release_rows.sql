-- audit: release_rows
-- question: How many records of each class were removed from a release, and added in a later one?
-- reads: release_record(is_new, class, combination): a row a record of either release; class is the number of
--        its quasi-identifier values, combination that of all its values, the same for equal values in both
-- returns: class, older BIGINT (its records in the older), newer BIGINT, removed BIGINT (records of the older
--          without an equal one in the newer, as EXCEPT ALL counts), added BIGINT (the reverse)
-- violation: none; release_verdict_classes.sql judges them
-- source: multiset difference of two tables
WITH combined AS (
    SELECT
        class,
        combination,
        CAST(sum(CASE WHEN is_new THEN 0 ELSE 1 END) AS BIGINT) AS older,
        CAST(sum(CASE WHEN is_new THEN 1 ELSE 0 END) AS BIGINT) AS newer
    FROM release_record
    GROUP BY class, combination
)
SELECT
    class,
    CAST(sum(older) AS BIGINT) AS older,
    CAST(sum(newer) AS BIGINT) AS newer,
    CAST(sum(greatest(older - newer, 0)) AS BIGINT) AS removed,
    CAST(sum(greatest(newer - older, 0)) AS BIGINT) AS added
FROM combined
GROUP BY class
