-- audit: journalist_risk_summary
-- question: How likely does an attacker who knows somebody of the population find a right record?
-- reads: class_journalist = the rows of journalist_risk.sql
-- returns: one row: journalist_max DOUBLE, journalist_average DOUBLE (mean over the records: the share that
--          an attack on all of them is expected to find), share_above_p_percent DOUBLE (share of records with
--          a risk > p %), violations BIGINT (classes), records BIGINT (in those classes), passed BOOLEAN
-- violation: passed = FALSE: a class holds more records than the population holds people
-- source: El Emam and Dankar 2008, as in ARX; 5, 9, 20, 33 % ask for cells of 20, 12, 5, 4 people
WITH cell AS (
    SELECT
        class_size,
        violated,
        CASE WHEN population_size = 0 THEN 1 ELSE population_size END AS people
    FROM class_journalist
),
share AS (
    SELECT
        CAST(min(people) AS DOUBLE) AS smallest,
        CAST(sum(class_size) AS DOUBLE) AS members,
        sum(CAST(class_size AS DOUBLE) / CAST(people AS DOUBLE)) AS expected,
        CAST(sum(CASE WHEN 100 > 5 * people THEN class_size ELSE 0 END) AS DOUBLE) AS above_5,
        CAST(sum(CASE WHEN 100 > 9 * people THEN class_size ELSE 0 END) AS DOUBLE) AS above_9,
        CAST(sum(CASE WHEN 100 > 20 * people THEN class_size ELSE 0 END) AS DOUBLE) AS above_20,
        CAST(sum(CASE WHEN 100 > 33 * people THEN class_size ELSE 0 END) AS DOUBLE) AS above_33,
        CAST(sum(CASE WHEN violated THEN 1 ELSE 0 END) AS BIGINT) AS violations,
        CAST(sum(CASE WHEN violated THEN class_size ELSE 0 END) AS BIGINT) AS records
    FROM cell
)
SELECT
    1 / smallest AS journalist_max,
    expected / members AS journalist_average,
    above_5 / members AS share_above_5_percent,
    above_9 / members AS share_above_9_percent,
    above_20 / members AS share_above_20_percent,
    above_33 / members AS share_above_33_percent,
    violations,
    records,
    violations = 0 AS passed
FROM share
