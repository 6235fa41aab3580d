-- audit: release_intersection
-- question: What do two releases of the same data say together about fewer than k records, or l values?
-- reads: release_verdict = the rows of release_verdict_classes.sql and release_verdict_values.sql; told = the
--        row of release_told.sql
-- returns: place, measure, attribute, threshold, value DOUBLE (the fewest common values; else all of them),
--          classes BIGINT (of both releases), violations BIGINT (classes, or 1 where the tables as a whole
--          are one), records BIGINT (of which these speak), passed; the last three are NULL for a measure
--          without threshold
-- violation: passed = FALSE
-- source: Xiao and Tao 2007; the rows alone are asked, which do not tell persons
WITH judged AS (
    SELECT
        place,
        measure,
        attribute,
        CAST(threshold AS DOUBLE) AS threshold,
        CAST(CASE WHEN measure = 'common_values' THEN min(value) ELSE sum(value) END AS DOUBLE) AS value,
        sum(CASE WHEN violated THEN 1 WHEN threshold IS NOT NULL THEN 0 END) AS violations,
        sum(CASE WHEN violated THEN records WHEN threshold IS NOT NULL THEN 0 END) AS records
    FROM release_verdict
    GROUP BY place, measure, attribute, threshold
)
SELECT
    judged.place,
    judged.measure,
    judged.attribute,
    judged.threshold,
    judged.value,
    told.classes,
    CAST(judged.violations AS BIGINT) AS violations,
    CAST(judged.records AS BIGINT) AS records,
    judged.violations = 0 AS passed
FROM judged
CROSS JOIN told
