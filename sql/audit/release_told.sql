-- audit: release_told
-- question: How many records at least came, went or changed between two releases?
-- reads: class_change = the rows of release_rows.sql, value_change = the rows of release_values.sql
-- returns: one row: classes BIGINT (of both together), difference BIGINT (records, newer less older), same
--          BOOLEAN (their rows are), changed BIGINT: a value that is gone is gone from a record, so at least
--          as many
-- violation: none; the files release_verdict_*.sql judge them
-- source: without persons nothing more is known from below
WITH total AS (
    SELECT
        count(*) AS classes,
        CAST(sum(newer - older) AS BIGINT) AS difference,
        max(removed + added) = 0 AS same
    FROM class_change
),
value_total AS (
    SELECT coalesce(max(greatest(removed, added)), 0) AS changed
    FROM value_change
)
SELECT
    total.classes,
    total.difference,
    total.same,
    CAST(greatest(abs(total.difference), value_total.changed) AS BIGINT) AS changed
FROM total
CROSS JOIN value_total
