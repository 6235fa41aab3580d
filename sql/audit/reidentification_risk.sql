-- audit: reidentification_risk
-- question: How likely does an attacker who knows the quasi-identifiers find the right record?
-- reads: class_member(class, value)
-- returns: one row: prosecutor_max DOUBLE (1 / smallest class), prosecutor_average DOUBLE (mean over the
--          records of 1 / class size), marketer DOUBLE (share of the records that an attack on all of them
--          is expected to find), share_above_p_percent DOUBLE (share of records with 1 / class size > p %)
-- violation: none; a policy may cap any of them
-- source: El Emam and Dankar 2008, as in ARX, sdcMicro; 5, 9, 20, 33 % ask for cells of 20, 12, 5, 4 records
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
),
share AS (
    SELECT
        CAST(min(members) AS DOUBLE) AS smallest,
        CAST(count(*) AS DOUBLE) AS classes,
        CAST(sum(members) AS DOUBLE) AS records,
        CAST(sum(CASE WHEN 100 > 5 * members THEN members ELSE 0 END) AS DOUBLE) AS above_5,
        CAST(sum(CASE WHEN 100 > 9 * members THEN members ELSE 0 END) AS DOUBLE) AS above_9,
        CAST(sum(CASE WHEN 100 > 20 * members THEN members ELSE 0 END) AS DOUBLE) AS above_20,
        CAST(sum(CASE WHEN 100 > 33 * members THEN members ELSE 0 END) AS DOUBLE) AS above_33
    FROM class_size
)
SELECT
    1 / smallest AS prosecutor_max,
    classes / records AS prosecutor_average,
    classes / records AS marketer,
    above_5 / records AS share_above_5_percent,
    above_9 / records AS share_above_9_percent,
    above_20 / records AS share_above_20_percent,
    above_33 / records AS share_above_33_percent
FROM share
