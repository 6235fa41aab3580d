-- audit: release_verdict_classes
-- question: What do the numbers of records of two releases, in all and in a class, say about fewer than k?
-- reads: class_change = the rows of release_rows.sql, told = the row of release_told.sql, threshold(k)
-- returns: place, measure, attribute (NULL), threshold, value DOUBLE, records BIGINT (of which it speaks),
--          violated: one row of records_difference and records_changed, a row a class of the others
-- violation: records_difference, rows_removed, rows_added, class_size_difference (of a class that is in both)
--            from 1 to k - 1, whatever the sign; records_changed below k where the releases are not the same,
--            0 too: nothing shows then that what changed are k; classes_in_both, _removed, _added are
--            counted, and not judged
-- source: whoever knows the older release takes it from the newer, and what is left is about that many
--         records
SELECT
    1 AS place, 'records_difference' AS measure, NULL AS attribute, threshold.k AS threshold,
    CAST(told.difference AS DOUBLE) AS value, abs(told.difference) AS records,
    abs(told.difference) BETWEEN 1 AND threshold.k - 1 AS violated
FROM told
CROSS JOIN threshold
UNION ALL
SELECT 2, 'records_changed', NULL, threshold.k, told.changed, told.changed,
    NOT told.same AND told.changed < threshold.k
FROM told
CROSS JOIN threshold
UNION ALL
SELECT 3, 'rows_removed', NULL, threshold.k, one.removed, one.removed,
    one.removed BETWEEN 1 AND threshold.k - 1
FROM class_change AS one
CROSS JOIN threshold
UNION ALL
SELECT 4, 'rows_added', NULL, threshold.k, one.added, one.added, one.added BETWEEN 1 AND threshold.k - 1
FROM class_change AS one
CROSS JOIN threshold
UNION ALL
SELECT 5, 'class_size_difference', NULL, threshold.k,
    CASE WHEN least(one.older, one.newer) > 0 THEN abs(one.newer - one.older) ELSE 0 END,
    abs(one.newer - one.older),
    least(one.older, one.newer) > 0 AND abs(one.newer - one.older) BETWEEN 1 AND threshold.k - 1
FROM class_change AS one
CROSS JOIN threshold
UNION ALL
SELECT 10, 'classes_in_both', NULL, NULL,
    CASE WHEN least(one.older, one.newer) > 0 THEN 1 ELSE 0 END, NULL, NULL
FROM class_change AS one
UNION ALL
SELECT 11, 'classes_removed', NULL, NULL, CASE WHEN one.newer = 0 THEN 1 ELSE 0 END, NULL, NULL
FROM class_change AS one
UNION ALL
SELECT 12, 'classes_added', NULL, NULL, CASE WHEN one.older = 0 THEN 1 ELSE 0 END, NULL, NULL
FROM class_change AS one
