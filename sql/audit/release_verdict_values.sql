-- audit: release_verdict_values
-- question: What do the values of two releases, sensitive ones and sums, say about fewer than k, or leave
--           below l?
-- reads: class_change = the rows of release_rows.sql, value_change = the rows of release_values.sql,
--        class_common = the rows of release_common_values.sql, sum_change = the rows of release_sums.sql,
--        told = the row of release_told.sql, threshold(k, l)
-- returns: place, measure, attribute, threshold, value DOUBLE, records BIGINT (of which it speaks), violated:
--          a row a column, of common_values a row a class and column; value is NULL where it is in one
--          release only
-- violation: values_removed, values_added from 1 to k - 1; common_values below l where the class has l in
--            either release, so that it is the two that tell; sum_difference other than 0, but for rounding,
--            where records_changed is below k: it is their sum, or that of those who came less that of those
--            who went
-- source: Xiao and Tao 2007, m-invariance; differences of totals
SELECT
    6 AS place, 'values_removed' AS measure, one.attribute, CAST(threshold.k AS DOUBLE) AS threshold,
    CAST(one.removed AS DOUBLE) AS value, one.removed AS records,
    one.removed BETWEEN 1 AND threshold.k - 1 AS violated
FROM value_change AS one
CROSS JOIN threshold
UNION ALL
SELECT 7, 'values_added', one.attribute, CAST(threshold.k AS DOUBLE), one.added, one.added,
    one.added BETWEEN 1 AND threshold.k - 1
FROM value_change AS one
CROSS JOIN threshold
UNION ALL
SELECT 8, 'common_values', one.attribute, CAST(threshold.l AS DOUBLE),
    CASE WHEN least(one.older, one.newer) > 0 THEN one.common END,
    class_change.newer,
    least(one.older, one.newer) >= threshold.l AND one.common < threshold.l
FROM class_common AS one
JOIN class_change ON class_change.class = one.class
CROSS JOIN threshold
UNION ALL
SELECT 9, 'sum_difference', one.attribute, CAST(threshold.k AS DOUBLE), one.difference, told.changed,
    abs(one.difference) > 0.000000000001 * one.size AND told.changed < threshold.k
FROM sum_change AS one
CROSS JOIN told
CROSS JOIN threshold
